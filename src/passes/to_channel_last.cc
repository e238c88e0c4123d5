// Turns every operator that has the attribute data_layout from channel-first to channel-last, between two Transposes;
// cancel_transposes removes those that meet.
// Invariant: the name of a layer stays with the channel-last value, unless that value is an output of the graph.
#include <fmt/core.h>

#include <map>
#include <string>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

/// Constants that were permuted already: a weight may serve several nodes.
using Permuted = std::map<const Value*, Value*>;

Status permute_weight(Graph& graph, Node& node, std::size_t index, Permuted& permuted) {
  Value* weight = node.operands[index];
  const Permutation& perm = node.op->weight_to_nhwc;
  if (!weight->is_constant()) {
    HTPIPE_TRY(Value * moved, transposed(graph, weight, perm, node));
    graph.set_operand(node, index, moved);
    return {};
  }
  Value*& twin = permuted[weight];
  if (twin == nullptr) twin = graph.add_constant(weight->name + "_nhwc", transpose(weight->constant, perm));
  graph.set_operand(node, index, twin);
  return {};
}

Status convert(Graph& graph, Node& node, Permuted& permuted) {
  const std::size_t rank = node.operands[0]->type.shape.size();
  const bool moves = !is_identity(to_nhwc(rank));  // [n,c] is both
  if (moves) {
    HTPIPE_TRY(Value * input, transposed(graph, node.operands[0], to_nhwc(rank), node));
    graph.set_operand(node, 0, input);
  }
  for (std::size_t i = 1; i < node.operands.size() && !node.op->weight_to_nhwc.empty(); ++i) {
    if (node.operands[i] == nullptr || node.op->operands[i].role != Role::kWeight) continue;
    HTPIPE_CHECK_OK(permute_weight(graph, node, i, permuted));
  }
  node.attributes.set("data_layout", std::string("nhwc"));
  HTPIPE_CHECK_OK(infer_again(node));
  return moves ? transpose_behind(graph, node, to_nchw(rank)) : Status();
}

bool is_channel_first(const Node& node) {
  const std::size_t rank = node.operands.empty() ? 0 : node.operands[0]->type.shape.size();
  return node.op->layout == Layout::kSpatial && node.attributes.text("data_layout") == "nchw" && rank >= 2 &&
         !is_quantised(node);
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  Permuted permuted;
  for (Node* node : node_list(graph)) {
    if (!is_channel_first(*node)) continue;
    report.add(fmt::format("{} is channel-last now", describe(*node)));
    HTPIPE_CHECK_OK(convert(graph, *node, permuted));
  }
  std::vector<Value*> replaced;
  for (const auto& value : graph.values()) {
    if (permuted.count(value.get()) != 0) replaced.push_back(value.get());
  }
  for (Value* weight : replaced) erase_unused(graph, weight);
  return report;
}

}  // namespace

const Pass& to_channel_last() {
  static const Pass pass = {"to_channel_last", "Turns operators with a data layout from channel-first to channel-last.",
                            run};
  return pass;
}

}  // namespace htpipe::passes
