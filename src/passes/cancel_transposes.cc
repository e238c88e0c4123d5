// Moves Transposes towards the outputs until they meet others and cancel; what is left and moves no element becomes a
// Reshape.
// T(x) + T(y) = T(x + y); U(T(x)) = (T then U)(x); a permutation of axes of size 1 is a Reshape; Reshape(Reshape(x)) is
// one Reshape.
// Invariant: a Transpose only ever moves behind its user, so that one walk in execution order finds everything.
#include <fmt/core.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

/// The operand of a user behind which a Transpose moves.
struct Source {
  Value* value = nullptr;  ///< what the user takes instead
  bool permuted = false;   ///< a constant that must be permuted first
};

/// What `user` takes for `operand` when `perm` moves behind it; nullopt when the operand stands in the way.
std::optional<Source> source_of(Value* operand, const Permutation& perm, const Node& user) {
  if (operand == nullptr) return Source{};
  if (const Permutation* found = permutation_of(operand); found != nullptr && *found == perm) {
    return Source{operand->producer->operands[0], false};
  }
  // One element fits every place, however the axes are ordered.
  if (operand->type.count() == 1) return Source{operand, false};
  if (operand->is_constant()) {
    const std::size_t rank = operand->type.shape.size();
    const bool fits = user.op->layout == Layout::kElementwise ? rank <= perm.size() : rank == perm.size();
    return fits ? std::optional<Source>(Source{operand, true}) : std::nullopt;
  }
  if (operand->type.shape.size() != perm.size()) return std::nullopt;
  Value* there = find_transposed(operand, inverse(perm), &user);
  return there != nullptr ? std::optional<Source>(Source{there, false}) : std::nullopt;
}

/// A permutation that may move behind `node`.
struct Move {
  Permutation perm;
  std::vector<Source> sources;
};

/// Whether the chip takes `node` along the last axis only, and it goes along another one behind `perm`.
bool leaves_last_axis(const Node& node, const Permutation& perm) {
  if (!node.is("Softmax") && !node.is("LogSoftmax")) return false;
  const auto axis = static_cast<std::size_t>(node.attributes.integer("axis"));
  return axis + 1 == perm.size() && perm[axis] != node.attributes.integer("axis");
}

std::optional<Move> find_move(const Node& node) {
  const bool movable = node.op->layout == Layout::kElementwise || node.op->layout == Layout::kAxis;
  if (!movable || node.results.size() != 1 || is_quantised(node)) return std::nullopt;
  const std::size_t rank = node.result()->type.shape.size();
  for (const Value* operand : node.operands) {
    const Permutation* perm = permutation_of(operand);
    if (perm == nullptr || perm->size() != rank || leaves_last_axis(node, *perm)) continue;
    Move move{*perm, {}};
    for (Value* other : node.operands) {
      const auto source = source_of(other, move.perm, node);
      if (!source) break;
      move.sources.push_back(*source);
    }
    if (move.sources.size() == node.operands.size()) return move;
  }
  return std::nullopt;
}

/// `constant` as it stands in front of the permutation. A shorter shape is aligned to the last axes, as broadcasting is.
Value* permuted_constant(Graph& graph, const Value* constant, const Permutation& perm) {
  TensorType type = constant->type;
  type.shape.insert(type.shape.begin(), perm.size() - type.shape.size(), 1);
  const Permutation back = inverse(perm);
  return graph.add_constant(constant->name + std::string(suffix_of(back)),
                            transpose(constant->constant.with_type(type), back));
}

Status move_behind(Graph& graph, Node& node, const Move& move) {
  const std::set<Value*> before(node.operands.begin(), node.operands.end());
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    Value* value = move.sources[i].value;
    if (move.sources[i].permuted) value = permuted_constant(graph, value, move.perm);
    if (value != node.operands[i]) graph.set_operand(node, i, value);
  }
  for (Value* operand : before) {
    if (operand == nullptr) continue;
    if (permutation_of(operand) != nullptr) {
      erase_unused(graph, operand->producer);
    } else {
      erase_unused(graph, operand);
    }
  }
  if (node.op->layout == Layout::kAxis) {
    const std::int64_t axis = node.attributes.integer("axis");
    node.attributes.set("axis", move.perm[static_cast<std::size_t>(axis)]);
  }
  HTPIPE_CHECK_OK(infer_again(node));
  return transpose_behind(graph, node, move.perm);
}

/// Lets a Transpose of a Transpose, or a Reshape of a Reshape, read what stands in front of the first.
void merge_into(Graph& graph, Node& node, Node* first, PassReport& report) {
  report.add(fmt::format("{} and {} merged", describe(*first), describe(node)));
  if (node.is("Transpose")) {
    node.attributes.set("perm", compose(first->attributes.integers("perm"), node.attributes.integers("perm")));
  }
  graph.set_operand(node, 0, first->operands[0]);
  erase_unused(graph, first);
}

/// Merges a Transpose with the one in front of it and removes it when nothing is left of both.
void merge_transpose(Graph& graph, Node* node, PassReport& report) {
  if (permutation_of(node->operands[0]) != nullptr) merge_into(graph, *node, node->operands[0]->producer, report);
  if (!is_identity(node->attributes.integers("perm"))) return;
  std::string note = fmt::format("{} changes nothing any more", describe(*node));
  if (bypass(graph, node, node->operands[0])) report.add(std::move(note));
}

Status turn_into_reshape(Graph& graph, Node* node, PassReport& report) {
  report.add(fmt::format("{} moves no element: a Reshape now", describe(*node)));
  HTPIPE_TRY(Node * reshape, graph.add_node("Reshape", node->name(), {{"shape", node->result()->type.shape}},
                                            {node->operands[0]}, node->source, node));
  take_place(graph, *reshape, node);
  return {};
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (is_quantised(*node)) continue;
    if (node->is("Transpose")) {
      merge_transpose(graph, node, report);
    } else if (const auto move = find_move(*node)) {
      report.add(fmt::format("Transpose moved behind {}", describe(*node)));
      HTPIPE_CHECK_OK(move_behind(graph, *node, *move));
    }
  }
  // Only now: a Transpose that has become a Reshape cannot move any more.
  for (Node* node : node_list(graph)) {
    if (is_quantised(*node) || !node->is("Transpose")) continue;
    if (keeps_elements(node->attributes.integers("perm"), node->operands[0]->type.shape)) {
      HTPIPE_CHECK_OK(turn_into_reshape(graph, node, report));
    }
  }
  for (Node* node : node_list(graph)) {
    const Node* first = node->is("Reshape") ? node->operands[0]->producer : nullptr;
    if (first == nullptr || !first->is("Reshape") || is_quantised(*node) || is_quantised(*first)) continue;
    merge_into(graph, *node, node->operands[0]->producer, report);
  }
  return report;
}

}  // namespace

const Pass& cancel_transposes() {
  static const Pass pass = {"cancel_transposes",
                            "Moves Transposes behind elementwise nodes, merges them, and makes Reshapes of those that "
                            "move no element.",
                            run};
  return pass;
}

}  // namespace htpipe::passes
