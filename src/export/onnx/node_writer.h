// One node of ours on its way out, as the functions that write operators see it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "export/onnx/writer.h"

namespace htpipe::onnx_export {

class NodeWriter {
 public:
  /// `outputs`: the name of each result in the file.
  NodeWriter(Writer& writer, const Graph& graph, const Node& node, Names outputs)
      : writer_(writer), graph_(graph), node_(node), outputs_(std::move(outputs)) {}

  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] const Attributes& attributes() const { return node_.attributes; }
  [[nodiscard]] Writer& writer() { return writer_; }
  [[nodiscard]] std::int64_t opset() const { return writer_.opset(); }

  // Operands as plain numbers: what is stored as integers counts as float32.
  [[nodiscard]] std::size_t input_count() const { return node_.operands.size(); }
  [[nodiscard]] bool has(std::size_t i) const { return i < node_.operands.size() && node_.operands[i] != nullptr; }
  [[nodiscard]] DType dtype(std::size_t i = 0) const { return plain(node_.operands[i]->type); }
  [[nodiscard]] const Shape& shape(std::size_t i = 0) const { return node_.operands[i]->type.shape; }
  [[nodiscard]] std::size_t rank() const { return shape().size(); }
  /// Null when it is computed.
  [[nodiscard]] const Tensor* constant(std::size_t i) const;
  /// The name of an operand; empty when it is absent.
  [[nodiscard]] std::string in(std::size_t i) { return has(i) ? writer_.real(*node_.operands[i]) : std::string(); }
  /// The operand in another form: a constant is rewritten, anything else gets a node in front.
  std::string permuted(std::size_t i, const IntList& perm);
  std::string reshaped(std::size_t i, const Shape& shape);
  std::string cast(std::size_t i, DType to);

  [[nodiscard]] DType result_dtype(std::size_t i = 0) const { return plain(node_.results[i]->type); }
  [[nodiscard]] const Shape& result_shape(std::size_t i = 0) const { return node_.results[i]->type.shape; }
  /// Whether anybody reads that result.
  [[nodiscard]] bool wanted(std::size_t i) const;

  /// Something that is still done to result 0, in the order of the calls; before the node that makes it is added.
  void behind(std::string_view op_type, Names more_inputs = {}, Settings settings = {});
  /// Relu or Clip for the attribute `activation`.
  void activation_behind();
  /// Result 0 is computed in another type than it has.
  void computed_in(DType dtype);
  /// The name for result `i`, in front of what is done behind it.
  std::string out(std::size_t i = 0);

  /// Adds a node that makes result 0.
  void emit(std::string_view op_type, const Names& inputs, const Settings& settings = {});
  /// Adds a node that makes an inner value, and gives its name.
  std::string inner(std::string_view op_type, const Names& inputs, std::string_view suffix,
                    const Settings& settings = {});
  /// A reduction of `input`: its axes are an attribute below `since`, and an operand from there on.
  Names reduction(const std::string& input, const IntList& axes, bool keep_dims, std::int64_t since,
                  Settings& settings);

  std::string name(std::string_view suffix) { return writer_.fresh(node_.name() + "_" + std::string(suffix)); }
  std::string scalar(double value, DType dtype) { return writer_.scalar(node_.name() + "_value", value, dtype); }
  std::string integers(std::string_view suffix, const IntList& values) {
    return writer_.integers(node_.name() + "_" + std::string(suffix), values);
  }
  std::string floats(std::string_view suffix, const Shape& shape, const std::vector<float>& values, DType dtype);
  [[nodiscard]] tl::unexpected<Error> refuse(std::string why) const;

  /// Adds what stands behind result 0. Called once, at the end.
  void finish();

 private:
  struct Step {
    std::string_view op_type;
    Names more_inputs;
    Settings settings;
  };
  [[nodiscard]] static DType plain(const TensorType& type) { return type.encoding ? DType::kF32 : type.dtype; }

  Writer& writer_;
  const Graph& graph_;
  const Node& node_;
  Names outputs_;
  std::vector<Step> behind_;
  std::string inner_result_;
};

/// Writes one node. Errors: unsupported-form, with the reason.
using NodeFunction = Status (*)(NodeWriter& out);

/// The function for an operator of ours (operator_list.inc); nullptr when it cannot be written.
[[nodiscard]] NodeFunction find_function(std::string_view op);

// Layouts.
[[nodiscard]] bool is_channel_last(const NodeWriter& out);
/// [0, rank - 1, 1, 2 ...]: from channel-last to channel-first; and back.
[[nodiscard]] IntList to_channel_first(std::size_t rank);
[[nodiscard]] IntList to_channel_last(std::size_t rank);
/// Operand 0 channel-first; a channel-last node gets the permutation of its result behind it.
std::string channel_first_input(NodeWriter& out);
/// [before0, after0, before1 ...] as ONNX wants it: [before0, before1 ..., after0, after1 ...].
[[nodiscard]] IntList pads_of(const IntList& pairs);

}  // namespace htpipe::onnx_export
