// Brings the axis of a Softmax to the end, where the chip takes it: QNN's Softmax and LogSoftmax go along the last axis.
// Softmax(x, axis) = T(Softmax(T(x), last)), where T swaps the axis with the last one.
// Behind to_channel_last the channels of an image are the last axis already.
// Invariant: the name stays with the result of the Softmax, unless that is an output.
#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

Status move(Graph& graph, Node& node, std::int64_t axis, std::int64_t last) {
  Permutation swap(static_cast<std::size_t>(last) + 1);
  std::iota(swap.begin(), swap.end(), std::int64_t{0});
  std::swap(swap[static_cast<std::size_t>(axis)], swap[static_cast<std::size_t>(last)]);
  HTPIPE_TRY(Value * operand, transposed(graph, node.operands[0], swap, node));
  graph.set_operand(node, 0, operand);
  node.attributes.set("axis", last);
  HTPIPE_CHECK_OK(infer_again(node));
  return transpose_behind(graph, node, swap);
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if ((!node->is("Softmax") && !node->is("LogSoftmax")) || is_quantised(*node)) continue;
    const auto last = static_cast<std::int64_t>(node->result()->type.shape.size()) - 1;
    std::int64_t axis = node->attributes.integer("axis");
    if (axis < 0) axis += last + 1;
    if (axis == last) continue;
    report.add(fmt::format("{} goes along the last axis", describe(*node)));
    HTPIPE_CHECK_OK(move(graph, *node, axis, last));
  }
  return report;
}

}  // namespace

const Pass& move_softmax_axis() {
  static const Pass pass = {"move_softmax_axis", "Brings the axis of a Softmax to the end, where the chip takes it.",
                            run};
  return pass;
}

}  // namespace htpipe::passes
