// The walk over the graph that fills the message of an ONNX model.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "export/onnx/export.h"
#include "export/onnx/writer.h"

namespace htpipe::onnx_export {

class Exporter {
 public:
  Exporter(const Graph& graph, const OnnxOptions& options)
      : graph_(graph), options_(options), model_(std::make_shared<onnx::ModelProto>()) {}

  /// Everything but the bytes of the initializers. Errors: as export_onnx.
  Status build();

  [[nodiscard]] const std::shared_ptr<onnx::ModelProto>& model() const { return model_; }
  [[nodiscard]] const std::vector<Payload>& payloads() const { return writer_->payloads(); }
  [[nodiscard]] onnx::TensorProto& initializer(const Payload& payload) {
    return *model_->mutable_graph()->mutable_initializer(payload.index);
  }

 private:
  void add_header();
  Status check() const;
  Status add_inputs();
  Status add_node(const Node& node);
  Status add_operator(const Node& node);
  Status add_conversion(const Node& node);
  /// Stores the real numbers `real` as the encoding of `value` says, and reads them back under its name.
  void add_pair(const Value& value, const std::string& real);
  Status add_outputs();

  const Graph& graph_;
  const OnnxOptions& options_;
  std::shared_ptr<onnx::ModelProto> model_;
  std::optional<Writer> writer_;
};

}  // namespace htpipe::onnx_export
