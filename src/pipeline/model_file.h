// Any model file that htpipe reads, the vendor's included: what `htpipe exec` executes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "import/options.h"
#include "ir/graph.h"
#include "qnn/graph_spec.h"

namespace htpipe {

struct LoadedModel {
  std::optional<Graph> own;            ///< of .pt2, .onnx and .htir
  std::optional<qnn::GraphSpec> spec;  ///< of .dlc; of .bin only inputs and outputs
  std::uint32_t soc_model = 0;         ///< of .bin: the chip that it was compiled for
  std::vector<std::string> warnings;

  /// Our graph; that of a DLC is raised from the vendor's operators. Errors: those of raise_from_qnn; unsupported-form
  /// for a context binary, which no longer holds one.
  Result<Graph> graph() &&;
};

/// Reads .dlc and .bin (context binary) through the vendor's reader, all else by import_model. Errors: those of both; usage for import options
/// with a DLC.
Result<LoadedModel> load_model(const std::filesystem::path& path, const ImportOptions& options);

}  // namespace htpipe
