// Takes exporters' guard against rows in which nothing takes part away from a masked Softmax; no chip has IsNan.
// With p = Softmax(s + Select(m, 0, -inf)): Select(IsNan(p), 0, p) = Select(m, Softmax(Select(m, s, -1e30)), 0), which
// gives 0 where m is false, in rows without any true too. With a finite mask p has no row without a number, and
// Select(IsNan(p), c, p) = p.
// Invariant: scores are finite and far from 1e30; the parts serve nothing else but the mask, which layers share.
#include <fmt/core.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

constexpr float kMasked = -1.0e30F;  ///< its exponential is 0 beside any score

struct Guard {
  Value* softmax;
  Node* test;      ///< the IsNan
  Node* sum;       ///< what the Softmax gets
  std::size_t at;  ///< operand of the sum that is the mask
};

/// Whether nothing in a mask that is added is infinite.
bool is_finite_mask(const Value* value) {
  if (value->is_constant()) return is_finite_constant(value);
  const Node* node = value->producer;
  return node != nullptr && node->is("ElementWiseSelect") && is_finite_constant(node->operands[1]) &&
         is_finite_constant(node->operands[2]);
}

/// The condition m where the mask is Select(m, 0, -inf).
Value* condition_of(const Value* mask) {
  const Node* node = mask->producer;
  if (node == nullptr || !node->is("ElementWiseSelect") || is_quantised(*node)) return nullptr;
  const auto taken = scalar_of(node->operands[1]);
  const auto other = scalar_of(node->operands[2]);
  const bool masks = taken == 0.0F && other && *other == -std::numeric_limits<float>::infinity();
  return masks && !node->operands[0]->is_constant() ? node->operands[0] : nullptr;
}

/// What `select` guards, with the mask that `fits`; nullopt when it does something else.
template <typename Fits>
std::optional<Guard> guard_of(const Node& select, Fits fits) {
  if (!select.is("ElementWiseSelect")) return std::nullopt;
  Node* test = select.operands[0]->producer;
  Value* softmax = select.operands[2];
  if (test == nullptr || !test->is("IsNan") || test->operands[0] != softmax) return std::nullopt;
  if (softmax->producer == nullptr || !softmax->producer->is("Softmax") || softmax->type != select.result()->type) {
    return std::nullopt;
  }
  Node* sum = softmax->producer->operands[0]->producer;
  if (sum == nullptr || !sum->is("ElementWiseBinary") || !is_plain_float(*sum) ||
      sum->attributes.text("operation") != "add" || sum->attributes.text("activation") != "none") {
    return std::nullopt;
  }
  for (const std::size_t at : {std::size_t{1}, std::size_t{0}}) {
    if (sum->operands[1 - at]->type == sum->result()->type && fits(sum->operands[at])) {
      return Guard{softmax, test, sum, at};
    }
  }
  return std::nullopt;
}

/// Select(IsNan(p), c, p) = p. False when the name of an output is in the way.
bool drop(Graph& graph, Node* select, const Guard& guard) {
  Value* otherwise = select->operands[1];
  if (!bypass(graph, select, guard.softmax)) return false;
  erase_unused(graph, guard.test);
  erase_unused(graph, otherwise);
  return true;
}

/// Selects in front of the Softmax and behind it, by the condition of the mask.
Status select_twice(Graph& graph, Node* select, const Guard& guard) {
  Value* mask = guard.sum->operands[guard.at];
  Value* condition = condition_of(mask);
  Node* softmax = guard.softmax->producer;
  const std::string name = guard.sum->name();
  Value* masked = graph.add_constant(
      name + "_masked_score", Tensor::from<float>({DType::kF32, {1}, std::nullopt}, std::vector<float>{kMasked}));
  HTPIPE_TRY(Node * front,
             graph.add_node("ElementWiseSelect", name, {}, {condition, guard.sum->operands[1 - guard.at], masked},
                            guard.sum->source, guard.sum));
  graph.set_operand(*softmax, 0, front->result());
  graph.erase(guard.sum);
  graph.rename(front->result(), name);
  if (mask->producer != nullptr) erase_unused(graph, mask->producer);
  Value* otherwise = select->operands[1];
  graph.set_operand(*select, 2, otherwise);
  graph.set_operand(*select, 1, guard.softmax);
  graph.set_operand(*select, 0, condition);
  erase_unused(graph, guard.test);
  return infer_again(*select);
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  std::vector<Node*> selects;
  for (Node* node : node_list(graph)) {
    if (node->is("ElementWiseSelect")) selects.push_back(node);
  }
  for (Node* select : selects) {
    if (const auto finite = guard_of(*select, is_finite_mask)) {
      std::string note = fmt::format("{} guards a Softmax of finite scores", describe(*select));
      if (drop(graph, select, *finite)) report.add(std::move(note));
      continue;
    }
    const auto guard = guard_of(*select, [](const Value* mask) { return condition_of(mask) != nullptr; });
    if (!guard || scalar_of(select->operands[1]) != 0.0F) continue;
    const bool others = guard->softmax->users.size() != 2 || guard->sum->result()->users.size() != 1 ||
                        guard->test->result()->users.size() != 1 || graph.is_output(guard->softmax) ||
                        graph.is_output(guard->sum->result()) || graph.is_output(guard->test->result());
    if (others) continue;
    report.add(fmt::format("{} selects by the mask", describe(*select)));
    HTPIPE_CHECK_OK(select_twice(graph, select, *guard));
  }
  return report;
}

}  // namespace

const Pass& fuse_masked_softmax() {
  static const Pass pass = {"fuse_masked_softmax",
                            "Takes the guard against empty rows away from a masked Softmax, or masks without infinity.",
                            run};
  return pass;
}

}  // namespace htpipe::passes
