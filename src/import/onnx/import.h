// From an ONNX model to our graph.
#pragma once

#include <filesystem>

#include "base/io.h"
#include "base/result.h"
#include "import/options.h"

namespace htpipe {

/// Reads an ONNX file (opsets 6 to 28) and builds the graph: channel-first operators, weights borrowed from the parsed
/// message or from mapped data files, names as the model has them. Shapes come from the operators' own rules; where the
/// file declares another shape there is a warning. Constants are folded, an If with a constant condition is replaced by
/// its branch, model-local functions are inlined.
/// Errors: those of onnx_import::Model; dynamic-shape naming every dimension that needs a size; unsupported-op with a
/// note for every operator without a table entry; needs-constant; data-dependent; unsupported-form at the node.
Result<Imported> import_onnx(const std::filesystem::path& path, const ImportOptions& options = {});
/// The same for a model in memory; `path` is its name in errors, and its folder holds external data.
Result<Imported> import_onnx(Bytes bytes, const std::filesystem::path& path, const ImportOptions& options = {});

}  // namespace htpipe
