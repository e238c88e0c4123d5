// The stages that call Qualcomm's compiler and emulator, cached by what they depend on.
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/session.h"
#include "target/target.h"

namespace htpipe {

struct Compiled {
  std::filesystem::path dlc;
  std::filesystem::path context_binary;
  Json context;  ///< read back from the binary: SoC, architecture, build id, sizes
};

/// Versions of the vendor's libraries as JSON.
Result<Json> vendor_versions(const qnn::Vendor& vendor, Cache& cache, const std::string& program_digest);

/// What the vendor's validator says of every node of `quantized` on `target`: rows {op, type, verdict, code, reason}.
Result<Json> vendor_verdicts(Session& session, const Target& target, const Graph& quantized);

/// Writes the DLC and the context binary of a quantised graph and reads the binary back.
Result<Compiled> compile_artifacts(Session& session, const Target& target, const Graph& quantized,
                                   const std::string& graph_digest);

/// Runs the DLC on the emulator of `target` with every intermediate value exposed: value name → all samples stacked.
Result<std::map<std::string, Tensor>> emulate_all_values(Session& session, const Target& target,
                                                         const std::filesystem::path& dlc, const Graph& quantized,
                                                         const SampleSource& floats);

/// Classes that the context binary gives for the first `samples` evaluation samples.
Result<Json> emulate_classes(Session& session, const Target& target, const std::filesystem::path& context_binary,
                             const Graph& quantized, const std::string& graph_digest, std::int64_t samples);

}  // namespace htpipe
