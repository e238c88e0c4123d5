// Lets a Transpose of more axes than the HTP takes move fewer: axes that stay side by side are one axis, and axes of size
// 1 none. Window attention permutes six, [b,h,s,w,s,c] to [b,h,w,s,s,c]; four of them move.
// T(x) = Reshape(T'(Reshape(x))).
// Invariant: only what the chip refuses changes; a Transpose that needs more axes even so stays.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/rewrite.h"
#include "tensor/moved_axes.h"

namespace htpipe::passes {
namespace {

constexpr std::size_t kMostAxes = 5;  ///< src/target/rules.inc

/// The same permutation of fewer axes, and their sizes in front of it.
struct Merged {
  Permutation perm;
  Shape shape;
};

Merged merged(const Permutation& perm, const Shape& shape) {
  const std::vector<MovedAxis> axes = moved_axes(shape, perm);
  const auto axis = [&axes](std::int64_t i) -> const MovedAxis& { return axes[static_cast<std::size_t>(i)]; };
  Permutation places(axes.size());  // in the result, of the operand's axes from the outermost inwards
  std::iota(places.begin(), places.end(), std::int64_t{0});
  std::stable_sort(places.begin(), places.end(),
                   [&](std::int64_t a, std::int64_t b) { return axis(a).from > axis(b).from; });
  Merged result = {inverse(places), {}};
  for (const std::int64_t place : places) result.shape.push_back(axis(place).extent);
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
    take_place(graph, *out, node);
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
