// From our graph to an ONNX file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "ir/graph.h"

namespace onnx {
class ModelProto;
}

namespace htpipe {

struct OnnxOptions {
  std::int64_t opset = 17;     ///< 13 to 21
  bool external_data = false;  ///< weights beside the model even when they are less than 1.9 GB
  /// Tensors of fewer bytes stay in the model: readers want shapes there.
  std::size_t smallest_external = 1024;
  std::string source_digest;  ///< SHA-256 of the file that the graph came from; empty = not written
  /// Called with the finished file before it gets its final name; an error leaves nothing there. The weights stand
  /// beside it already.
  std::function<Status(const std::filesystem::path& model)> check;
};

/// What was written.
struct OnnxFile {
  std::filesystem::path model;
  std::filesystem::path data;  ///< empty when the weights are in the model
  std::uint64_t bytes = 0;     ///< of both
  std::int64_t nodes = 0;
};

/// Oldest and newest opset that is written.
inline constexpr std::int64_t kOldestExportOpset = 13;
inline constexpr std::int64_t kNewestExportOpset = 21;

/// Writes `graph` as an ONNX model. Inputs, outputs and values keep their names; channel-last operators get Transposes
/// around them. Values with an encoding are written as real numbers between QuantizeLinear and DequantizeLinear; only
/// what Quantize makes and Dequantize takes stands in the file as stored integers, also at inputs and outputs.
/// Weights of more than 1.9 GB in all go into `path`.data, which is written first; both files are complete or not
/// there. Same graph, same bytes.
/// Errors: usage (opset), unsupported-form and unsupported-op at the node, output-unwritable, those of `check`.
Result<OnnxFile> export_onnx(const Graph& graph, const std::filesystem::path& path, const OnnxOptions& options = {});

/// The message without files, weights within: for tests. Errors: as export_onnx.
Result<std::shared_ptr<onnx::ModelProto>> to_onnx(const Graph& graph, const OnnxOptions& options = {});

}  // namespace htpipe
