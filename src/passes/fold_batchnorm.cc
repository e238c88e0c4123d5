// Folds a Batchnorm into the Conv2d, DepthWiseConv2d or FullyConnected in front of it.
// Invariant: that of affine.h.
#include "passes/affine.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

std::optional<AffineProducer> match(const Graph& graph, const Node& batchnorm) {
  if (!batchnorm.is("Batchnorm") || !is_plain_float(batchnorm)) return std::nullopt;
  if (!batchnorm.operands[1]->is_constant() || !batchnorm.operands[2]->is_constant()) return std::nullopt;
  const auto producer = affine_producer(graph, batchnorm.operands[0]);
  if (!producer || channel_axis(*producer->node) != channel_axis(batchnorm)) return std::nullopt;
  return producer->channels == batchnorm.operands[1]->type.count() ? producer : std::nullopt;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    const auto producer = match(graph, *node);
    if (!producer) continue;
    const Tensor scale = node->operands[1]->constant;
    const Tensor shift = node->operands[2]->constant;
    report.add(fold_affine_node(graph, *producer, node, scale.data<float>(), shift.data<float>()));
  }
  return report;
}

}  // namespace

const Pass& fold_batchnorm() {
  static const Pass pass = {"fold_batchnorm",
                            "Folds a Batchnorm into the weights and the bias of the layer in front of it.", run};
  return pass;
}

}  // namespace htpipe::passes
