// From our graph to an ONNX file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace onnx {
class ModelProto;
}

namespace htpipe {

struct OnnxOptions {
  std::int64_t opset = 17;     ///< 13 to 21
  bool external_data = false;  ///< weights beside the model even when they are less than 2 GB
  std::string source_digest;   ///< SHA-256 of the file that the graph came from; empty = not written
};

/// Oldest and newest opset that is written.
inline constexpr std::int64_t kOldestExportOpset = 13;
inline constexpr std::int64_t kNewestExportOpset = 21;

/// Writes `graph` as an ONNX model. Inputs, outputs and values keep their names; channel-last operators get Transposes
/// around them; values with an encoding become QuantizeLinear and DequantizeLinear pairs. Weights of more than 2 GB in
/// all go into `path`.data, which is written first; both files are complete or not there. Same graph, same bytes.
/// Errors: usage (opset), unsupported-form and unsupported-op at the node, output-unwritable.
Status export_onnx(const Graph& graph, const std::filesystem::path& path, const OnnxOptions& options = {});

/// The message without files, weights within: for tests. Errors: as export_onnx.
Result<std::shared_ptr<onnx::ModelProto>> to_onnx(const Graph& graph, const OnnxOptions& options = {});

}  // namespace htpipe
