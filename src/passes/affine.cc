#include "passes/affine.h"

#include <fmt/core.h>

#include <string_view>
#include <utility>

#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

bool is_channel_last(const Node& node) {
  const Attribute* layout = node.attributes.find("data_layout");
  return layout == nullptr || std::get<std::string>(*layout) != "nchw";
}

bool is_constant_float(const Value* value) { return value->is_constant() && value->type.dtype == DType::kF32; }

Tensor scaled_weight(const Tensor& weight, std::size_t axis, std::span<const float> scale) {
  Tensor result(weight.type());
  const auto from = weight.data<float>();
  const auto to = result.mutable_data<float>();
  std::size_t inner = 1;
  for (std::size_t i = axis + 1; i < weight.shape().size(); ++i) inner *= static_cast<std::size_t>(weight.shape()[i]);
  for (std::size_t begin = 0; begin < from.size(); begin += inner) {
    const double factor = static_cast<double>(scale[begin / inner % scale.size()]);
    for (std::size_t i = begin; i < begin + inner; ++i) {
      to[i] = static_cast<float>(static_cast<double>(from[i]) * factor);
    }
  }
  return result;
}

Tensor scaled_bias(const Value* bias, std::span<const float> scale, std::span<const float> shift) {
  Tensor result(TensorType{DType::kF32, {static_cast<std::int64_t>(scale.size())}, std::nullopt});
  const auto to = result.mutable_data<float>();
  for (std::size_t c = 0; c < to.size(); ++c) {
    const double before = bias != nullptr ? static_cast<double>(bias->constant.data<float>()[c]) : 0.0;
    const double shifted = shift.empty() ? 0.0 : static_cast<double>(shift[c]);
    to[c] = static_cast<float>(before * static_cast<double>(scale[c]) + shifted);
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

}  // namespace

std::size_t channel_axis(const Node& node) {
  const std::size_t rank = node.result()->type.shape.size();
  return is_channel_last(node) || rank == 1 ? rank - 1 : 1;
}

std::optional<AffineProducer> affine_producer(const Graph& graph, const Value* value) {
  Node* node = single_use_producer(graph, value);
  if (node == nullptr || node->op->weight_channel_axis < 0 || !is_plain_float(*node)) return std::nullopt;
  const auto weight = operand_with(*node->op, Role::kWeight);
  const auto bias = operand_with(*node->op, Role::kBias);
  if (!weight || !bias) return std::nullopt;
  const Attribute* activation = node->attributes.find("activation");
  if (activation != nullptr && std::get<std::string>(*activation) != "none") return std::nullopt;
  const Value* old_bias = node->operands[*bias];
  if (!is_constant_float(node->operands[*weight]) || (old_bias != nullptr && !is_constant_float(old_bias))) {
    return std::nullopt;
  }
  std::int64_t axis = node->op->weight_channel_axis;
  if (!is_channel_last(*node)) axis = node->op->weight_to_nhwc[static_cast<std::size_t>(axis)];
  // With groups, the channels of a transposed convolution are spread over two axes of its weights.
  const auto weight_axis = static_cast<std::size_t>(axis);
  const std::int64_t channels = node->result()->type.shape[channel_axis(*node)];
  if (node->operands[*weight]->type.shape[weight_axis] != channels) return std::nullopt;
  return AffineProducer{node, *weight, *bias, weight_axis, channels};
}

void scale_layer(Graph& graph, const AffineProducer& layer, std::span<const float> scale,
                 std::span<const float> shift) {
  Node& node = *layer.node;
  Value* weight = node.operands[layer.weight];
  Value* bias = node.operands[layer.bias];
  const std::string weight_text = folded_name(weight->name);
  const std::string bias_text = folded_name(bias != nullptr ? bias->name : bias_name(weight->name));
  Tensor new_weight = scaled_weight(weight->constant, layer.weight_axis, scale);
  const bool biased = bias != nullptr || !shift.empty();
  if (biased) {
    graph.set_operand(node, layer.bias, graph.add_constant(bias_text, scaled_bias(bias, scale, shift)));
  }
  graph.set_operand(node, layer.weight, graph.add_constant(weight_text, std::move(new_weight)));
  erase_unused(graph, weight);
  if (biased && bias != weight) erase_unused(graph, bias);
}

std::string fold_affine_node(Graph& graph, const AffineProducer& producer, Node* folded, std::span<const float> scale,
                             std::span<const float> shift) {
  Node& node = *producer.node;
  std::string note = fmt::format("{} folded into {}", describe(*folded), describe(node));
  scale_layer(graph, producer, scale, shift);
  note += fmt::format("; %{} is now %{}", node.name(), folded->name());
  absorb(graph, node, folded);
  return note;
}

}  // namespace htpipe::passes
