// Removes nodes that give back what they get: Reshape to the same shape, Transpose that keeps the order, Concat of one
// operand, a slice, padding or tiling that changes no size, a Cast to the type that there is or back to it, x * 1 and
// x + 0, and a clamp of values that lie within its bounds already.
// Invariant: the value that goes on keeps its name, unless the identity made an output of the graph.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

constexpr std::int64_t kMostNeutral = 65536;  ///< elements of a constant that are looked at

struct Range {
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
  [[nodiscard]] bool holds(Range other) const { return low <= other.low && other.high <= high; }
};

/// Bounds that the node's own clamp gives its result.
Range clamp_of(const Node& node) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (node.is("ElementWiseNeuron")) {
    const std::string& operation = node.attributes.text("operation");
    if (operation == "relu") return {0.0F, kInfinity};
    if (operation == "relu_min_max") return {node.attributes.real("min_value"), node.attributes.real("max_value")};
  }
  if (const Attribute* activation = node.attributes.find("activation")) {
    const auto& name = std::get<std::string>(*activation);
    if (name == "relu") return {0.0F, kInfinity};
    if (name == "relu6") return {0.0F, 6.0F};
  }
  return {};
}

/// Bounds of a value: those of the nearest clamp behind which elements were only moved.
Range range_of(const Value* value) {
  const Node* node = value->producer;
  while (node != nullptr && (node->is("Reshape") || node->is("Transpose"))) node = node->operands[0]->producer;
  return node == nullptr ? Range{} : clamp_of(*node);
}

/// x * 1, x / 1, x + 0, x - 0 with any constant of nothing else.
bool is_neutral(const Node& node) {
  const Value* constant = node.operands[1];
  if (!is_plain_float(node) || !constant->is_constant() || constant->type.count() > kMostNeutral) return false;
  if (node.attributes.text("activation") != "none") return false;
  const std::string& operation = node.attributes.text("operation");
  const bool scales = operation == "multiply" || operation == "divide";
  if (!scales && operation != "add" && operation != "subtract") return false;
  const auto values = constant->constant.data<float>();
  return std::all_of(values.begin(), values.end(), [&](float x) { return x == (scales ? 1.0F : 0.0F); });
}

bool is_identity_node(const Node& node) {
  if (node.result()->type != node.operands[0]->type) return false;
  // A Concat of the same shape as its first operand has no other, or only empty ones.
  if (node.is("Reshape") || node.is("Concat")) return true;
  // What takes or gives no element less or more, in the same order, takes them all.
  if (node.is("Cast") || node.is("Pad") || node.is("Tile")) return true;
  if (node.is("StridedSlice")) {
    const auto& strides = node.attributes.integers("strides");
    return std::all_of(strides.begin(), strides.end(), [](std::int64_t stride) { return stride == 1; });
  }
  if (node.is("ElementWiseBinary")) return is_neutral(node);
  if (node.is("Transpose")) return is_identity(node.attributes.integers("perm"));
  if (!node.is("ElementWiseNeuron") || !is_plain_float(node)) return false;
  const std::string& operation = node.attributes.text("operation");
  return (operation == "relu" || operation == "relu_min_max") && clamp_of(node).holds(range_of(node.operands[0]));
}

/// Whether every number of type `from` is one of type `to`.
bool holds_all(DType from, DType to) {
  if (from == DType::kBool) return true;
  if (from == DType::kF16) return to == DType::kF32;
  const bool whole = from == DType::kI32 || from == DType::kI8 || from == DType::kU8;
  return whole && (to == DType::kI64 || (to == DType::kI32 && from != DType::kI32));
}

/// What a Cast back gives again: the operand of the Cast in front of it. Null when there is none, or when that loses
/// something.
Value* cast_back_to(const Node& node) {
  if (!node.is("Cast") || is_quantised(node)) return nullptr;
  const Node* first = node.operands[0]->producer;
  if (first == nullptr || !first->is("Cast") || is_quantised(*first)) return nullptr;
  Value* source = first->operands[0];
  const bool same = source->type == node.result()->type;
  return same && holds_all(source->type.dtype, first->result()->type.dtype) ? source : nullptr;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (node->operands.empty()) continue;
    Value* value = is_identity_node(*node) ? node->operands[0] : cast_back_to(*node);
    if (value == nullptr) continue;
    std::string note = fmt::format("{} changes nothing", describe(*node));
    if (graph.is_output(node->result())) note += fmt::format("; %{} is now %{}", value->name, node->name());
    if (bypass(graph, node, value)) report.add(std::move(note));
  }
  return report;
}

}  // namespace

const Pass& remove_identities() {
  static const Pass pass = {"remove_identities", "Removes nodes that give back what they get.", run};
  return pass;
}

}  // namespace htpipe::passes
