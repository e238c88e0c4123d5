// Lets a Softmax scale what it gets: the chip's Softmax has a factor, beta. The factor is what fold_factor leaves, where
// a rotary embedding or a shared key stands between the scores and the projections.
// Softmax(c x) = Softmax(x, beta = c); Softmax(c x + m) = Softmax(x + m / c, beta = c) with a constant m.
// Invariant: c > 0, because QNN asks for it; a mask whose quotient is no longer finite stays.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

bool binary(const Node* node, std::string_view operation) {
  return node != nullptr && node->is("ElementWiseBinary") && is_plain_float(*node) &&
         node->attributes.text("operation") == operation && node->attributes.text("activation") == "none";
}

struct Scaled {
  Value* value;
  float factor;
};

/// What the scores are scaled from, and by how much.
std::optional<Scaled> scaled(const Node* node) {
  if (!binary(node, "multiply") && !binary(node, "divide")) return std::nullopt;
  const bool divides = node->attributes.text("operation") == "divide";
  for (const std::size_t data : {std::size_t{0}, std::size_t{1}}) {
    const auto number = scalar_of(node->operands[1 - data]);
    if (!number || !(*number > 0) || node->operands[data]->type != node->result()->type) continue;
    if (divides) return data == 0 ? std::optional(Scaled{node->operands[0], 1.0F / *number}) : std::nullopt;
    return Scaled{node->operands[data], *number};
  }
  return std::nullopt;
}

/// Index of the constant operand of a sum; nullopt when there is none.
std::optional<std::size_t> mask_operand(const Node* node) {
  if (!binary(node, "add")) return std::nullopt;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (node->operands[i]->is_constant() && node->operands[i]->type.dtype == DType::kF32) return i;
  }
  return std::nullopt;
}

/// mask / factor; nullopt when a finite number becomes infinite.
std::optional<Tensor> divided(const Tensor& mask, float factor) {
  Tensor result(mask.type());
  const auto from = mask.data<float>();
  const auto to = result.mutable_data<float>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    to[i] = static_cast<float>(static_cast<double>(from[i]) / static_cast<double>(factor));
    if (std::isfinite(from[i]) && !std::isfinite(to[i])) return std::nullopt;
  }
  return result;
}

/// True when the Softmax takes the factor.
bool scale(Graph& graph, Node& softmax) {
  Node* before = single_use_producer(graph, softmax.operands[0]);
  Node* sum = nullptr;
  std::optional<Tensor> mask;
  const auto at = mask_operand(before);
  if (at) {
    sum = before;
    before = single_use_producer(graph, sum->operands[1 - *at]);
  }
  const auto found = scaled(before);
  if (!found) return false;
  if (sum != nullptr) {
    Value* old = sum->operands[*at];
    mask = divided(old->constant, found->factor);
    if (!mask) return false;
    graph.set_operand(*sum, *at, graph.add_constant(old->name + "_scaled", std::move(*mask)));
    graph.set_operand(*sum, 1 - *at, found->value);
    erase_unused(graph, old);
  } else {
    graph.set_operand(softmax, 0, found->value);
  }
  softmax.attributes.set("beta", softmax.attributes.real("beta") * found->factor);
  erase_unused(graph, before);
  return true;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (!node->is("Softmax") || !is_plain_float(*node)) continue;
    if (scale(graph, *node)) report.add(fmt::format("{} scales its operand", describe(*node)));
  }
  return report;
}

}  // namespace

const Pass& scale_softmax() {
  static const Pass pass = {"scale_softmax", "Lets a Softmax scale what it gets by its beta.", run};
  return pass;
}

}  // namespace htpipe::passes
