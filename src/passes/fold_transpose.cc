// Folds the Transpose in front of a flattened linear layer into the layer's weights: instead of putting the elements of
// every input into another order, the columns of the weights are put into that order once.
// FullyConnected(Reshape(Transpose(x)), w) = FullyConnected(Reshape(x), w with its columns permuted back).
// Invariant: the first axis, the batch, stays first, and only the linear layer sees the flattened value. That value has
// another order then, and therefore another name.
#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

struct Match {
  Node* transpose;
  Node* reshape;
};

std::optional<Match> match(const Graph& graph, const Node& linear) {
  if (!is_plain_float(linear) || !linear.operands[1]->is_constant()) return std::nullopt;
  Node* reshape = single_use_producer(graph, linear.operands[0]);
  if (reshape == nullptr || !reshape->is("Reshape")) return std::nullopt;
  const Permutation* perm = permutation_of(reshape->operands[0]);
  if (perm == nullptr || perm->empty() || perm->front() != 0) return std::nullopt;
  const Shape& flat = reshape->result()->type.shape;
  const Shape& unfolded = reshape->operands[0]->type.shape;
  const std::int64_t features = element_count(Shape(unfolded.begin() + 1, unfolded.end()));
  if (flat != Shape{unfolded[0], features}) return std::nullopt;
  return Match{reshape->operands[0]->producer, reshape};
}

/// [outputs, features] with the features in the order that they have in front of the Transpose.
Tensor permuted_columns(const Tensor& weight, const Match& found) {
  const Permutation& perm = found.transpose->attributes.integers("perm");
  TensorType unfolded = weight.type();
  unfolded.shape = found.transpose->result()->type.shape;
  unfolded.shape[0] = weight.shape()[0];
  return transpose(weight.with_type(unfolded), inverse(perm)).with_type(weight.type());
}

void fold(Graph& graph, Node& linear, const Match& found) {
  const std::string suffix(suffix_of(inverse(found.transpose->attributes.integers("perm"))));
  Value* weight = linear.operands[1];
  graph.set_operand(linear, 1, graph.add_constant(weight->name + suffix, permuted_columns(weight->constant, found)));
  erase_unused(graph, weight);
  graph.rename(found.reshape->result(), graph.unique_name(found.reshape->name() + suffix));
  graph.set_operand(*found.reshape, 0, found.transpose->operands[0]);
  erase_unused(graph, found.transpose);
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (!node->is("FullyConnected")) continue;
    const auto found = match(graph, *node);
    if (!found) continue;
    std::string note = fmt::format("{} folded into the weights of {}", describe(*found->transpose), describe(*node));
    const std::string before = found->reshape->name();
    fold(graph, *node, *found);
    report.add(fmt::format("{}; %{} is now %{}", note, before, found->reshape->name()));
  }
  return report;
}

}  // namespace

const Pass& fold_transpose() {
  static const Pass pass = {
      "fold_transpose", "Folds the Transpose in front of a flattened linear layer into the weights of the layer.", run};
  return pass;
}

}  // namespace htpipe::passes
