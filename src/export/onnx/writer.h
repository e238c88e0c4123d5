// An ONNX graph under construction: nodes, initializers, names.
// Invariant: every name is unique; same calls, same message.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

// The generated header stays inside this folder.
#include <onnx-ml.pb.h>

namespace htpipe::onnx_export {

/// ONNX's number of a data type.
[[nodiscard]] std::int32_t data_type_of(DType dtype);

/// An initializer whose bytes are written later, when it is known whether they go beside the model.
struct Payload {
  int index;  ///< of the initializer in the graph
  Tensor tensor;
};

class Writer {
 public:
  Writer(onnx::GraphProto& graph, std::int64_t opset) : graph_(graph), opset_(opset) {}

  [[nodiscard]] std::int64_t opset() const { return opset_; }
  /// Takes a name as it is; every name of the graph's values is taken first.
  void take(const std::string& name) { names_.insert(name); }
  /// `wanted`, or with a number behind it.
  std::string fresh(std::string_view wanted);

  /// Adds a node; the caller adds attributes to it.
  onnx::NodeProto& node(std::string_view op_type, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, std::string_view domain = {});
  /// Adds an initializer; a constant of at most 64 bytes that is there already is not written twice.
  std::string initializer(std::string_view wanted, const Tensor& tensor);
  /// A constant of the graph under its own name, which was taken before.
  std::string initializer_named(const std::string& name, const Tensor& tensor);
  std::string integers(std::string_view wanted, const std::vector<std::int64_t>& values);
  /// A scalar of the data type.
  std::string scalar(std::string_view wanted, double value, DType dtype);

  [[nodiscard]] const std::vector<Payload>& payloads() const { return payloads_; }

 private:
  onnx::GraphProto& graph_;
  std::int64_t opset_;
  std::unordered_set<std::string> names_;
  std::unordered_map<std::string, std::int64_t> suffixes_;
  std::unordered_map<std::string, std::string> small_;  ///< type and bytes of small constants: their names
  std::vector<Payload> payloads_;
};

void set(onnx::NodeProto& node, std::string_view name, std::int64_t value);
void set(onnx::NodeProto& node, std::string_view name, float value);
void set(onnx::NodeProto& node, std::string_view name, std::string_view value);
void set(onnx::NodeProto& node, std::string_view name, const std::vector<std::int64_t>& values);

/// One node of ours on its way out: names of its operands and results in the file.
class NodeWriter {
 public:
  NodeWriter(Writer& writer, const Node& node, std::vector<std::string> inputs, std::vector<std::string> outputs)
      : writer_(writer), node_(node), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] const Attributes& attributes() const { return node_.attributes; }
  [[nodiscard]] Writer& writer() { return writer_; }
  [[nodiscard]] std::int64_t opset() const { return writer_.opset(); }
  /// Empty for an absent operand.
  [[nodiscard]] const std::string& in(std::size_t index) const { return inputs_[index]; }
  [[nodiscard]] std::size_t input_count() const { return inputs_.size(); }
  [[nodiscard]] const std::string& out(std::size_t index = 0) const { return outputs_[index]; }
  [[nodiscard]] const TensorType& type(std::size_t operand) const { return node_.operands[operand]->type; }
  [[nodiscard]] const TensorType& result_type(std::size_t result = 0) const { return node_.results[result]->type; }

  /// Adds an ONNX node with the result `output`; gives it back for attributes.
  onnx::NodeProto& emit(std::string_view op_type, const std::vector<std::string>& inputs, const std::string& output);
  /// The same with a fresh name for the result, which is stored in `output`.
  onnx::NodeProto& emit_inner(std::string_view op_type, const std::vector<std::string>& inputs, std::string_view suffix,
                              std::string& output);
  std::string scalar(double value, DType dtype) { return writer_.scalar(node_.name() + "_value", value, dtype); }
  std::string integers(std::string_view suffix, const std::vector<std::int64_t>& values) {
    return writer_.integers(node_.name() + "_" + std::string(suffix), values);
  }
  tl::unexpected<Error> refuse(std::string why) const;

 private:
  Writer& writer_;
  const Node& node_;
  std::vector<std::string> inputs_;
  std::vector<std::string> outputs_;
};

/// Writes one node. Errors: unsupported-form, with the reason.
using NodeFunction = Status (*)(NodeWriter& out);

/// The function for an operator of ours (operator_list.inc); nullptr when it cannot be written.
[[nodiscard]] NodeFunction find_function(std::string_view op);

}  // namespace htpipe::onnx_export
