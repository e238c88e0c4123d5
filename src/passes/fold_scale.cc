// Folds products, quotients, sums and differences with a constant, of one element or one per channel, and signs into the
// layer in front of them.
// Invariant: that of affine.h.
#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
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

/// What `node` does to its operand `data` with a constant: scale and shift; nullopt when it is no such thing.
std::optional<std::pair<std::vector<float>, std::vector<float>>> scale_and_shift(const Node& node, std::size_t data,
                                                                                 std::vector<float> values) {
  const std::string& operation = node.attributes.text("operation");
  const std::vector<float> ones(values.size(), 1.0F);
  if (operation == "multiply") return std::pair(values, std::vector<float>(values.size(), 0.0F));
  if (operation == "divide" && data == 0) {
    for (float& value : values) value = 1.0F / value;
    const bool finite = std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
    if (!finite) return std::nullopt;
    return std::pair(values, std::vector<float>(values.size(), 0.0F));
  }
  if (operation == "add") return std::pair(ones, std::move(values));
  if (operation != "subtract") return std::nullopt;
  if (data == 1) return std::pair(std::vector<float>(values.size(), -1.0F), std::move(values));
  std::transform(values.begin(), values.end(), values.begin(), std::negate<>());
  return std::pair(ones, std::move(values));
}

std::optional<Match> match_sign(const Graph& graph, const Node& node) {
  if (node.attributes.text("operation") != "neg") return std::nullopt;
  const auto producer = affine_producer(graph, node.operands[0]);
  if (!producer) return std::nullopt;
  const auto channels = static_cast<std::size_t>(producer->channels);
  return Match{*producer, std::vector<float>(channels, -1.0F), std::vector<float>(channels, 0.0F)};
}

std::optional<Match> match(const Graph& graph, const Node& node) {
  if (!is_plain_float(node)) return std::nullopt;
  if (node.is("ElementWiseUnary")) return match_sign(graph, node);
  if (!node.is("ElementWiseBinary") || node.attributes.text("activation") != "none") return std::nullopt;
  for (const std::size_t data : {std::size_t{0}, std::size_t{1}}) {
    const Value* constant = node.operands[1 - data];
    if (!constant->is_constant() || node.operands[data]->type.shape != node.result()->type.shape) continue;
    const auto producer = affine_producer(graph, node.operands[data]);
    if (!producer) continue;
    const std::size_t axis = channel_axis(*producer->node);
    const std::size_t rank = node.result()->type.shape.size();
    std::vector<float> values = per_channel(*constant, axis, rank, producer->channels);
    if (values.empty()) continue;
    auto found = scale_and_shift(node, data, std::move(values));
    if (found) return Match{*producer, std::move(found->first), std::move(found->second)};
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
  static const Pass pass = {"fold_scale",
                            "Folds products and sums with constants, and signs, into the layer in front of them.", run};
  return pass;
}

}  // namespace htpipe::passes
