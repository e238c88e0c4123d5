// Reads DLCs through QnnSystem, which composes their graphs by calling a backend: here a backend of our own that only
// writes down what it is told, or the HTP backend with our functions in between. Worker process only.
// Invariant: only public API calls; the library reads the file, not we.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "qnn/composer.h"
#include "qnn/loader.h"

namespace htpipe::qnn {

struct DlcGraphs {
  std::vector<GraphSpec> graphs;
  std::vector<std::string> notes;
};

/// All graphs of the file, static data copied. `base` is any backend: the reader asks it for its capabilities, and our
/// recording functions replace those that build graphs. Errors: dlc-invalid.
Result<DlcGraphs> read_dlc(const System& system, const Backend& base, const std::filesystem::path& path);

/// Composes graph `name` (empty = the first) of the file into `context` of a real backend; does not finalize.
/// With `expose_natives` intermediate tensors become outputs. Errors: dlc-invalid, vendor-error, usage (no such graph).
Result<GraphHandle> compose_dlc(const System& system, const Backend& backend, abi::Handle backend_handle,
                                abi::Handle context, const std::filesystem::path& path, const std::string& name,
                                const abi::Config** configs, std::uint32_t config_count, bool expose_natives,
                                Steps& steps);

}  // namespace htpipe::qnn
