// Folds a scalar factor into the weights of a layer further in front: the 1/sqrt(d) of attention, wherever it stands,
// becomes part of the projection of the query or the key.
// c f(x W + b) = f(x (c W) + c b), where f is made of Reshapes, Transposes and MatMuls with anything.
// Invariant: nothing else sees the values in between. Their names stay, although they are smaller by the factor.
#include <fmt/core.h>

#include <optional>
#include <string>
#include <vector>

#include "passes/affine.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

struct Factor {
  Value* value;   ///< what is multiplied
  Value* number;  ///< the constant
  float factor;
};

/// The product or quotient of a value and a number that `node` is; nullopt when it is something else.
std::optional<Factor> factor_of(const Node& node) {
  if (!node.is("ElementWiseBinary") || !is_plain_float(node) || node.attributes.text("activation") != "none") {
    return std::nullopt;
  }
  const std::string& operation = node.attributes.text("operation");
  const bool divides = operation == "divide";
  if (!divides && operation != "multiply") return std::nullopt;
  for (const std::size_t data : {std::size_t{0}, std::size_t{1}}) {
    const auto number = scalar_of(node.operands[1 - data]);
    Value* value = node.operands[data];
    if (!number || value->type != node.result()->type) continue;
    if (divides)
      return data == 0 && *number != 0.0F ? std::optional(Factor{value, node.operands[1], 1.0F / *number})
                                          : std::nullopt;
    return Factor{value, node.operands[1 - data], *number};
  }
  return std::nullopt;
}

/// The layer behind which nothing but moves and products stands; nullopt when there is none.
std::optional<AffineProducer> layer_in_front(const Graph& graph, const Value* value) {
  while (true) {
    if (const auto layer = affine_producer(graph, value)) return layer;
    const Node* node = single_use_producer(graph, value);
    if (node == nullptr || !is_plain_float(*node)) return std::nullopt;
    if (node->is("MatMul")) {
      if (node->operands.size() > 2 && node->operands[2] != nullptr) return std::nullopt;
      const auto left = layer_in_front(graph, node->operands[0]);
      return left ? left : layer_in_front(graph, node->operands[1]);
    }
    if (!node->is("Reshape") && !node->is("Transpose")) return std::nullopt;
    value = node->operands[0];
  }
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    const auto found = factor_of(*node);
    if (!found || single_use_producer(graph, found->value) == nullptr) continue;
    const auto layer = layer_in_front(graph, found->value);
    if (!layer) continue;
    std::string note = fmt::format("{} folded into {}", describe(*node), describe(*layer->node));
    if (!bypass(graph, node, found->value)) continue;
    erase_unused(graph, found->number);
    scale_layer(graph, *layer, std::vector<float>(static_cast<std::size_t>(layer->channels), found->factor), {});
    report.add(std::move(note));
  }
  return report;
}

}  // namespace

const Pass& fold_factor() {
  static const Pass pass = {"fold_factor", "Folds a scalar factor into the weights of a layer further in front.", run};
  return pass;
}

}  // namespace htpipe::passes
