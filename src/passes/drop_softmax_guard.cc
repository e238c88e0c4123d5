// Takes away PyTorch's guard against rows in which nothing takes part in the attention, where there are none.
// Select(ReduceMax(s) > -inf, Softmax(s), 0) = Softmax(s) when every row of s has a number above -inf.
// Source: torch.ops.aten._safe_softmax, which scaled_dot_product_attention becomes when it gets a mask.
// Invariant: inputs of the graph, and what products, sums and norms make of finite numbers, are finite.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

/// Operators whose results are finite when they compute with finite numbers.
constexpr std::string_view kFinite[] = {"Batchnorm", "Conv2d",    "DepthWiseConv2d", "FullyConnected", "GroupNorm",
                                        "L2Norm",    "LayerNorm", "MatMul",          "RmsNorm",        "Softmax"};
/// Operators that move numbers, or make a finite one of every finite one.
constexpr std::string_view kPassing[] = {
    "Concat", "ElementWiseNeuron", "ElementWiseSelect", "ExpandDims", "Gather",   "Reshape",
    "Split",  "Squeeze",           "StridedSlice",      "Tile",       "Transpose"};

template <typename List>
bool holds(const List& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

class Finiteness {
 public:
  /// Whether no element of `value` is an infinity.
  bool finite(const Value* value) {
    const auto [at, fresh] = known_.emplace(value, true);
    if (!fresh) return at->second;
    const bool answer = find_out(*value);
    known_[value] = answer;
    return answer;
  }

 private:
  bool find_out(const Value& value) {
    if (value.type.dtype != DType::kF32) return !is_float(value.type.dtype);
    if (value.is_constant()) return is_finite_constant(&value);
    if (value.producer == nullptr || holds(kFinite, value.producer->op->name)) return true;
    const Node& node = *value.producer;
    if (!holds(kPassing, node.op->name) && !is_sum(node)) return false;
    return std::all_of(node.operands.begin(), node.operands.end(),
                       [this](const Value* operand) { return operand == nullptr || finite(operand); });
  }

  static bool is_sum(const Node& node) {
    if (!node.is("ElementWiseBinary")) return false;
    const std::string_view operation = node.attributes.text("operation");
    const bool quotient = operation == "divide" && scalar_of(node.operands[1]).value_or(0.0F) != 0.0F;
    return quotient || operation == "add" || operation == "subtract" || operation == "multiply" ||
           operation == "maximum" || operation == "minimum";
  }

  std::map<const Value*, bool> known_;
};

/// Whether every row, along the last axis, of a mask that is added has a finite number.
bool rows_are_finite(const Value& mask, std::int64_t length) {
  const auto numbers = mask.constant.data<float>();
  const auto row = static_cast<std::ptrdiff_t>(mask.type.shape.empty() ? 1 : mask.type.shape.back());
  if (row != length && row != 1) return false;
  for (auto at = numbers.begin(); at != numbers.end(); at += row) {
    if (std::none_of(at, at + row, [](float x) { return std::isfinite(x); })) return false;
  }
  return true;
}

bool rows_are_finite(const Value* scores, Finiteness& values) {
  if (values.finite(scores)) return true;
  const Node* sum = scores->producer;
  if (sum == nullptr || !sum->is("ElementWiseBinary") || sum->attributes.text("operation") != "add") return false;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const Value* mask = sum->operands[i];
    if (!mask->is_constant() || mask->type.dtype != DType::kF32 || mask->type.count() == 0) continue;
    return values.finite(sum->operands[1 - i]) && rows_are_finite(*mask, scores->type.shape.back());
  }
  return false;
}

/// The Softmax's scores when `select` is the guard.
const Value* guarded(const Node& select) {
  if (!select.is("ElementWiseSelect") || is_quantised(select) || scalar_of(select.operands[2]) != 0.0F) return nullptr;
  const Node* softmax = select.operands[1]->producer;
  const Node* test = select.operands[0]->producer;
  if (softmax == nullptr || !softmax->is("Softmax") || test == nullptr || !test->is("ElementWiseBinary"))
    return nullptr;
  const auto last = static_cast<std::int64_t>(softmax->result()->type.shape.size()) - 1;
  const Node* highest = test->operands[0]->producer;
  if (test->attributes.text("operation") != "greater" || highest == nullptr || !highest->is("ReduceMax"))
    return nullptr;
  if (scalar_of(test->operands[1]) != -std::numeric_limits<float>::infinity()) return nullptr;
  const bool rows = highest->attributes.integers("axes") == std::vector<std::int64_t>{last} &&
                    softmax->attributes.integer("axis") == last && highest->attributes.flag("keep_dims");
  return rows && highest->operands[0] == softmax->operands[0] ? softmax->operands[0] : nullptr;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  Finiteness values;
  std::vector<Node*> guards;
  for (Node* node : node_list(graph)) {
    const Value* scores = guarded(*node);
    if (scores != nullptr && rows_are_finite(scores, values)) guards.push_back(node);
  }
  for (Node* node : guards) {
    Node* test = node->operands[0]->producer;
    std::string note = fmt::format("{} guards a Softmax whose rows all have a number", describe(*node));
    if (!bypass(graph, node, node->operands[1])) continue;
    report.add(std::move(note));
    if (!test->result()->users.empty() || graph.is_output(test->result())) continue;
    Node* highest = test->operands[0]->producer;
    graph.erase(test);
    if (highest->result()->users.empty() && !graph.is_output(highest->result())) graph.erase(highest);
  }
  return report;
}

}  // namespace

const Pass& drop_softmax_guard() {
  static const Pass pass = {"drop_softmax_guard",
                            "Takes the guard against empty rows away from a Softmax that has none.", run};
  return pass;
}

}  // namespace htpipe::passes
