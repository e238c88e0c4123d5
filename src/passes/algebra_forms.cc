// The functions besides sums and products that have many spellings: clamps and means; see algebra.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "ops/activation.h"
#include "passes/algebra.h"
#include "passes/rewrite.h"

namespace htpipe::passes::algebra {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kMostClamps = 4;  ///< in a row

std::optional<Clamp> neuron_clamp(const Node& node) {
  const std::string& operation = node.attributes.text("operation");
  if (operation == "relu") return Clamp{node.operands[0], nullptr, 0, kInfinity};
  if (operation != "relu_min_max") return std::nullopt;
  return Clamp{node.operands[0], nullptr, static_cast<double>(node.attributes.real("min_value")),
               static_cast<double>(node.attributes.real("max_value"))};
}

std::optional<Clamp> activation_clamp(Node& node) {
  const Attribute* activation = node.attributes.find("activation");
  if (activation == nullptr || std::get<std::string>(*activation) == "none") return std::nullopt;
  const auto range = ops::activation_range(std::get<std::string>(*activation));
  if (!range) return std::nullopt;
  return Clamp{nullptr, &node, static_cast<double>(range->low), static_cast<double>(range->high)};
}

std::optional<Clamp> bound_clamp(const Node& node) {
  const std::string& operation = node.attributes.text("operation");
  if (operation != "maximum" && operation != "minimum") return std::nullopt;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto bound = scalar_of(node.operands[1 - i]);
    if (!bound || node.operands[i]->type.shape != node.result()->type.shape) continue;
    if (operation == "maximum") return Clamp{node.operands[i], nullptr, *bound, kInfinity};
    return Clamp{node.operands[i], nullptr, -kInfinity, *bound};
  }
  return std::nullopt;
}

std::optional<Clamp> one_clamp(const Value* value) {
  Node* node = value->producer;
  if (node == nullptr || !is_plain_float(*node) || node->results.size() != 1) return std::nullopt;
  if (auto fused = activation_clamp(*node)) return fused;
  if (node->is("ElementWiseNeuron")) return neuron_clamp(*node);
  return node->is("ElementWiseBinary") ? bound_clamp(*node) : std::nullopt;
}

bool all_are(const std::vector<std::int64_t>& values, std::int64_t expected) {
  return std::all_of(values.begin(), values.end(), [expected](std::int64_t value) { return value == expected; });
}

/// A mean pool whose only window is the whole image, without padding.
std::optional<Mean> mean_of_pool(const Node& node) {
  const bool nhwc = node.attributes.text("data_layout") == "nhwc";
  const std::vector<std::int64_t> axes = nhwc ? std::vector<std::int64_t>{1, 2} : std::vector<std::int64_t>{2, 3};
  const Shape& from = node.operands[0]->type.shape;
  const Shape& to = node.result()->type.shape;
  const auto& filter = node.attributes.integers("filter_size");
  if (from.size() != 4 || filter.size() != 2 || !all_are(node.attributes.integers("pad_amount"), 0)) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < 2; ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    if (filter[i] != from[axis] || to[axis] != 1) return std::nullopt;
  }
  return Mean{node.operands[0], false, axes, true, 1};
}

std::optional<Mean> mean_of_node(const Node& node) {
  if (!is_plain_float(node)) return std::nullopt;
  if (node.is("PoolAvg2d")) return mean_of_pool(node);
  const bool mean = node.is("ReduceMean");
  const bool squared = node.is("ReduceSumSquare");
  if (!mean && !squared && !node.is("ReduceSum")) return std::nullopt;
  Mean found = {node.operands[0], squared, node.attributes.integers("axes"), node.attributes.flag("keep_dims"), 1};
  if (found.axes.empty()) return std::nullopt;
  std::sort(found.axes.begin(), found.axes.end());
  if (mean) return found;
  for (const std::int64_t axis : found.axes) {
    found.factor *= static_cast<double>(found.operand->type.shape[static_cast<std::size_t>(axis)]);
  }
  return found.factor > 0 ? std::optional(found) : std::nullopt;
}

}  // namespace

std::optional<Clamp> clamp_of(const Graph& graph, const Value* value) {
  auto found = one_clamp(value);
  for (int i = 1; found && found->operand != nullptr && i < kMostClamps; ++i) {
    if (single_use_producer(graph, found->operand) == nullptr) break;
    const auto inner = one_clamp(found->operand);
    // Where the ranges have nothing in common, the result is the nearer end of the outer one: no clamp of this form.
    if (!inner || std::max(inner->low, found->low) > std::min(inner->high, found->high)) break;
    found = Clamp{inner->operand, inner->fused, std::max(inner->low, found->low), std::min(inner->high, found->high)};
  }
  return found;
}

std::optional<Mean> mean_of(const Graph& graph, const Value* value) {
  const Node* node = value->producer;
  if (node == nullptr || node->results.size() != 1) return std::nullopt;
  if (!node->is("Reshape")) return mean_of_node(*node);
  const Node* reduction = single_use_producer(graph, node->operands[0]);
  auto found = reduction == nullptr ? std::nullopt : mean_of_node(*reduction);
  if (!found || found->keep_dims) return std::nullopt;
  Shape kept = found->operand->type.shape;
  for (const std::int64_t axis : found->axes) kept[static_cast<std::size_t>(axis)] = 1;
  if (value->type.shape != kept) return std::nullopt;
  found->keep_dims = true;
  return found;
}

}  // namespace htpipe::passes::algebra
