// Folds products and sums with a constant, of one element or one per channel, into the layer in front of them.
// Invariant: that of affine.h.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "passes/affine.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

struct Match {
  AffineProducer producer;
  std::vector<float> scale;
  std::vector<float> shift;
};

/// The constant's values per channel; empty when it does not go along the channels alone.
std::vector<float> per_channel(const Value& constant, std::size_t axis, std::size_t rank, std::int64_t channels) {
  const std::vector<float> values = to_floats(constant.constant);
  if (values.size() == 1) return std::vector<float>(static_cast<std::size_t>(channels), values.front());
  const Shape& shape = constant.type.shape;
  if (shape.size() > rank || static_cast<std::int64_t>(values.size()) != channels) return {};
  // Aligned to the last axes, as broadcasting is.
  const std::size_t missing = rank - shape.size();
  if (axis < missing || shape[axis - missing] != channels) return {};
  return values;
}

std::optional<Match> match(const Graph& graph, const Node& node) {
  if (!node.is("ElementWiseBinary") || !is_plain_float(node)) return std::nullopt;
  const std::string& operation = node.attributes.text("operation");
  if (operation != "multiply" && operation != "add" && operation != "subtract") return std::nullopt;
  if (node.attributes.text("activation") != "none") return std::nullopt;
  for (const std::size_t data : {std::size_t{0}, std::size_t{1}}) {
    const Value* constant = node.operands[1 - data];
    if (!constant->is_constant() || (operation == "subtract" && data != 0)) continue;
    if (node.operands[data]->type.shape != node.result()->type.shape) continue;
    const auto producer = affine_producer(graph, node.operands[data]);
    if (!producer) continue;
    const std::size_t axis = channel_axis(*producer->node);
    const std::size_t rank = node.result()->type.shape.size();
    std::vector<float> values = per_channel(*constant, axis, rank, producer->channels);
    if (values.empty()) continue;
    if (operation == "multiply") return Match{*producer, values, std::vector<float>(values.size(), 0.0F)};
    if (operation == "subtract") std::transform(values.begin(), values.end(), values.begin(), std::negate<>());
    return Match{*producer, std::vector<float>(values.size(), 1.0F), std::move(values)};
  }
  return std::nullopt;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    const auto found = match(graph, *node);
    if (found) report.add(fold_affine_node(graph, found->producer, node, found->scale, found->shift));
  }
  return report;
}

}  // namespace

const Pass& fold_scale() {
  static const Pass pass = {"fold_scale", "Folds products and sums with constants into the layer in front of them.",
                            run};
  return pass;
}

}  // namespace htpipe::passes
