// Lets a Transpose of more axes than the HTP takes move fewer: axes that stay side by side are one axis, and axes of size
// 1 none. Window attention permutes six, [b,h,s,w,s,c] to [b,h,w,s,s,c]; four of them move.
// T(x) = Reshape(T'(Reshape(x))).
// Invariant: only what the chip refuses changes; a Transpose that needs more axes even so stays.
#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

constexpr std::size_t kMostAxes = 5;  ///< src/target/rules.inc

/// The same permutation of fewer axes, and their sizes in front of it.
struct Merged {
  Permutation perm;
  Shape shape;
};

Merged merged(const Permutation& perm, const Shape& shape) {
  Permutation order;  // axes of size 1 are anywhere
  for (const std::int64_t axis : perm) {
    if (shape[static_cast<std::size_t>(axis)] != 1) order.push_back(axis);
  }
  const auto follows = [&shape](std::int64_t axis, std::int64_t next) {
    for (++axis; axis < next && shape[static_cast<std::size_t>(axis)] == 1;) ++axis;
    return axis == next;
  };
  std::vector<std::int64_t> group_of(shape.size(), -1);  // by operand axis: its group's first result place
  std::vector<std::int64_t> first;                       // by group, in the order of the result
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i == 0 || !follows(order[i - 1], order[i])) first.push_back(order[i]);
    group_of[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(first.size()) - 1;
  }
  Merged result;
  std::vector<std::int64_t> place(first.size(), -1);  // by group, in the order of the operand
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (group_of[axis] < 0) continue;
    std::int64_t& at = place[static_cast<std::size_t>(group_of[axis])];
    if (at < 0) {
      at = static_cast<std::int64_t>(result.shape.size());
      result.shape.push_back(1);
    }
    result.shape[static_cast<std::size_t>(at)] *= shape[axis];
  }
  result.perm = place;
  return result;
}

Result<Node*> add_reshape(Graph& graph, const std::string& name, Value* value, Shape shape, const Node& at) {
  return graph.add_node("Reshape", graph.unique_name(name), {{"shape", std::move(shape)}}, {value}, at.source, &at);
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (!node->is("Transpose") || is_quantised(*node)) continue;
    const Permutation& perm = node->attributes.integers("perm");
    if (perm.size() <= kMostAxes) continue;
    const Merged fewer = merged(perm, node->operands[0]->type.shape);
    if (fewer.perm.size() > kMostAxes) continue;
    report.add(fmt::format("{} moves {} axes instead of {}", describe(*node), fewer.perm.size(), perm.size()));
    const std::string name = node->name();
    HTPIPE_TRY(Node * in, add_reshape(graph, name + "_in", node->operands[0], fewer.shape, *node));
    HTPIPE_TRY(Node * moved, graph.add_node("Transpose", graph.unique_name(name + "_moved"), {{"perm", fewer.perm}},
                                            {in->result()}, node->source, node));
    HTPIPE_TRY(Node * out, add_reshape(graph, name + "_out", moved->result(), node->result()->type.shape, *node));
    graph.replace_uses(node->result(), out->result());
    graph.erase(node);
    graph.rename(out->result(), name);
  }
  return report;
}

}  // namespace

const Pass& lower_transpose_rank() {
  static const Pass pass = {"lower_transpose_rank", "Merges the axes of Transposes that have more than the chip takes.",
                            run};
  return pass;
}

}  // namespace htpipe::passes
