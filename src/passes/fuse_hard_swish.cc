// Turns x * relu6(x + 3) / 6, as exporters spell it, into one hard_swish.
// Invariant: the parts serve nothing else.
#include <fmt/core.h>

#include <cmath>
#include <optional>
#include <string>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

bool is(const Node* node, std::string_view operation, std::string_view activation) {
  return node != nullptr && node->is("ElementWiseBinary") && is_plain_float(*node) &&
         node->attributes.text("operation") == operation && node->attributes.text("activation") == activation;
}

/// Whether `node` is relu6(x + 3).
bool is_clip(const Node* node, const Value* x) {
  if (!is(node, "add", "relu6")) return false;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (node->operands[i] == x && scalar_of(node->operands[1 - i]) == 3.0F) return true;
  }
  return false;
}

/// x where `node` is x * relu6(x + 3).
Value* input_of(const Graph& graph, const Node& node) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    Value* x = node.operands[i];
    if (is_clip(single_use_producer(graph, node.operands[1 - i]), x)) return x;
  }
  return nullptr;
}

/// The operand that is divided by six; null when nothing is.
Value* divided_by_six(const Node& node) {
  if (is(&node, "divide", "none") && scalar_of(node.operands[1]) == 6.0F) return node.operands[0];
  if (!is(&node, "multiply", "none")) return nullptr;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto factor = scalar_of(node.operands[1 - i]);
    if (factor && std::fabs(*factor * 6.0F - 1.0F) < 1e-6F) return node.operands[i];
  }
  return nullptr;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    const Value* whole = divided_by_six(*node);
    Node* product = whole == nullptr ? nullptr : single_use_producer(graph, whole);
    if (!is(product, "multiply", "none")) continue;
    Value* x = input_of(graph, *product);
    if (x == nullptr || x->type.shape != node->result()->type.shape) continue;
    report.add(fmt::format("{} and what is in front of it are a hard_swish", describe(*node)));
    Node* clip = product->operands[product->operands[0] == x ? 1 : 0]->producer;
    HTPIPE_TRY(Node * fused, graph.add_node("ElementWiseNeuron", node->name(),
                                            {{"operation", std::string("hard_swish")}}, {x}, node->source, node));
    take_place(graph, *fused, node);
    erase_unused(graph, product);
    erase_unused(graph, clip);
  }
  return report;
}

}  // namespace

const Pass& fuse_hard_swish() {
  static const Pass pass = {"fuse_hard_swish", "Turns x * relu6(x + 3) / 6 into one hard_swish.", run};
  return pass;
}

}  // namespace htpipe::passes
