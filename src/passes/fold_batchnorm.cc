// Folds a Batchnorm into the Conv2d, DepthWiseConv2d or FullyConnected in front of it:
// (x * w + b) * scale + shift = x * (w * scale) + (b * scale + shift), per output channel.
// Invariant: only when nothing else sees the result of the producer, and only with constant operands.
#include <fmt/core.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

bool is_channel_last(const Node& node) {
  const Attribute* layout = node.attributes.find("data_layout");
  return layout == nullptr || std::get<std::string>(*layout) != "nchw";
}

std::size_t channel_axis(const Node& node) {
  const std::size_t rank = node.result()->type.shape.size();
  return is_channel_last(node) || rank == 1 ? rank - 1 : 1;
}

/// Where a producer keeps what a fold changes.
struct Producer {
  Node* node;
  std::size_t weight;       ///< operand
  std::size_t bias;         ///< operand, may be absent
  std::size_t weight_axis;  ///< of output channels
};

bool is_constant_float(const Value* value) { return value->is_constant() && value->type.dtype == DType::kF32; }

std::optional<Producer> match(const Graph& graph, const Node& batchnorm) {
  if (!is_plain_float(batchnorm)) return std::nullopt;
  Node* node = single_use_producer(graph, batchnorm.operands[0]);
  if (node == nullptr || node->op->weight_channel_axis < 0 || !is_plain_float(*node)) return std::nullopt;
  const auto weight = operand_with(*node->op, Role::kWeight);
  const auto bias = operand_with(*node->op, Role::kBias);
  if (!weight || !bias || channel_axis(*node) != channel_axis(batchnorm)) return std::nullopt;
  const Attribute* activation = node->attributes.find("activation");
  if (activation != nullptr && std::get<std::string>(*activation) != "none") return std::nullopt;
  const Value* old_bias = node->operands[*bias];
  if (!is_constant_float(node->operands[*weight]) || (old_bias != nullptr && !is_constant_float(old_bias)) ||
      !is_constant_float(batchnorm.operands[1]) || !is_constant_float(batchnorm.operands[2])) {
    return std::nullopt;
  }
  std::int64_t axis = node->op->weight_channel_axis;
  if (!is_channel_last(*node)) axis = node->op->weight_to_nhwc[static_cast<std::size_t>(axis)];
  // With groups, the channels of a transposed convolution are spread over two axes of its weights.
  const auto weight_axis = static_cast<std::size_t>(axis);
  if (node->operands[*weight]->type.shape[weight_axis] != batchnorm.operands[1]->type.count()) return std::nullopt;
  return Producer{node, *weight, *bias, weight_axis};
}

Tensor scaled_weight(const Tensor& weight, std::size_t axis, std::span<const float> scale) {
  Tensor result(weight.type());
  const auto from = weight.data<float>();
  const auto to = result.mutable_data<float>();
  std::size_t inner = 1;
  for (std::size_t i = axis + 1; i < weight.shape().size(); ++i) inner *= static_cast<std::size_t>(weight.shape()[i]);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const double factor = static_cast<double>(scale[i / inner % scale.size()]);
    to[i] = static_cast<float>(static_cast<double>(from[i]) * factor);
  }
  return result;
}

Tensor scaled_bias(const Value* bias, std::span<const float> scale, std::span<const float> shift) {
  Tensor result(TensorType{DType::kF32, {static_cast<std::int64_t>(scale.size())}, std::nullopt});
  const auto to = result.mutable_data<float>();
  for (std::size_t c = 0; c < to.size(); ++c) {
    const double before = bias != nullptr ? static_cast<double>(bias->constant.data<float>()[c]) : 0.0;
    to[c] = static_cast<float>(before * static_cast<double>(scale[c]) + static_cast<double>(shift[c]));
  }
  return result;
}

std::string folded_name(std::string_view name) {
  constexpr std::string_view kSuffix = "_folded";
  const bool has_suffix = name.size() > kSuffix.size() && name.substr(name.size() - kSuffix.size()) == kSuffix;
  return std::string(name) + (has_suffix ? "" : std::string(kSuffix));
}

/// "conv.bias" for "conv.weight", "w_bias" for "w".
std::string bias_name(std::string_view weight) {
  constexpr std::string_view kWeight = "weight";
  if (weight.size() >= kWeight.size() && weight.substr(weight.size() - kWeight.size()) == kWeight) {
    return std::string(weight.substr(0, weight.size() - kWeight.size())) + "bias";
  }
  return std::string(weight) + "_bias";
}

std::string fold(Graph& graph, const Producer& producer, Node* batchnorm) {
  Node& node = *producer.node;
  std::string note = fmt::format("{} folded into {}", describe(*batchnorm), describe(node));
  const auto scale = batchnorm->operands[1]->constant.data<float>();
  const auto shift = batchnorm->operands[2]->constant.data<float>();
  Value* weight = node.operands[producer.weight];
  Value* bias = node.operands[producer.bias];
  Tensor new_weight = scaled_weight(weight->constant, producer.weight_axis, scale);
  Tensor new_bias = scaled_bias(bias, scale, shift);
  const std::string weight_text = folded_name(weight->name);
  const std::string bias_text = folded_name(bias != nullptr ? bias->name : bias_name(weight->name));
  graph.set_operand(node, producer.weight, graph.add_constant(weight_text, std::move(new_weight)));
  graph.set_operand(node, producer.bias, graph.add_constant(bias_text, std::move(new_bias)));
  erase_unused(graph, weight);
  if (bias != weight) erase_unused(graph, bias);
  note += fmt::format("; %{} is now %{}", node.name(), batchnorm->name());
  absorb(graph, node, batchnorm);
  return note;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (!node->is("Batchnorm")) continue;
    if (const auto producer = match(graph, *node)) report.add(fold(graph, *producer, node));
  }
  return report;
}

}  // namespace

const Pass& fold_batchnorm() {
  static const Pass pass = {"fold_batchnorm",
                            "Folds a Batchnorm into the weights and the bias of the layer in front of it.", run};
  return pass;
}

}  // namespace htpipe::passes
