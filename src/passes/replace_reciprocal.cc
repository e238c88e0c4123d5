// Replaces a reciprocal, which the HTP does not have, by what it has.
// 1 / sqrt(x) = rsqrt(x); y * (1 / x) = y / x; 1 / x is a quotient of the constant 1.
// Source: the vendor's validator refuses ElementWiseUnary with operation reciprocal in every type (src/target/rules.inc).
// Invariant: a root or a reciprocal that others use as well is not computed twice.
#include <fmt/core.h>

#include <string>
#include <string_view>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

bool is_operation(const Node* node, std::string_view op, std::string_view operation) {
  return node != nullptr && node->is(op) && is_plain_float(*node) && node->attributes.text("operation") == operation;
}

/// Whether a product of two values is all that uses the result of `node`.
Node* product_of(const Graph& graph, const Node& node) {
  const Value* result = node.result();
  if (result->users.size() != 1 || graph.is_output(result)) return nullptr;
  Node* user = result->users.front();
  const bool product = is_operation(user, "ElementWiseBinary", "multiply") && user->operands[0] != user->operands[1];
  return product ? user : nullptr;
}

Status replace(Graph& graph, Node* node, PassReport& report) {
  Value* x = node->operands[0];
  if (Node* root = single_use_producer(graph, x); is_operation(root, "ElementWiseUnary", "sqrt")) {
    report.add(fmt::format("{} of a root is one rsqrt", describe(*node)));
    HTPIPE_TRY(Node * made, graph.add_node("ElementWiseUnary", node->name(), {{"operation", std::string("rsqrt")}},
                                           {root->operands[0]}, node->source, node));
    take_place(graph, *made, node);
    graph.erase(root);
    return {};
  }
  if (Node* product = product_of(graph, *node)) {
    report.add(fmt::format("{} and the product behind it are a quotient", describe(*node)));
    Value* other = product->operands[product->operands[0] == node->result() ? 1 : 0];
    Attributes attributes = product->attributes;
    attributes.set("operation", std::string("divide"));
    HTPIPE_TRY(Node * made, graph.add_node("ElementWiseBinary", product->name(), std::move(attributes), {other, x},
                                           product->source, product));
    take_place(graph, *made, product);
    graph.erase(node);
    return {};
  }
  report.add(fmt::format("{} is a quotient", describe(*node)));
  Tensor one({DType::kF32, {1}, std::nullopt});
  one.mutable_data<float>()[0] = 1.0F;
  Value* numerator = graph.add_constant(node->name() + "_one", std::move(one));
  HTPIPE_TRY(Node * made, graph.add_node("ElementWiseBinary", node->name(), {{"operation", std::string("divide")}},
                                         {numerator, x}, node->source, node));
  take_place(graph, *made, node);
  return {};
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  std::vector<Node*> reciprocals;  // a product behind one disappears, a reciprocal only in its turn
  for (Node* node : node_list(graph)) {
    if (is_operation(node, "ElementWiseUnary", "reciprocal")) reciprocals.push_back(node);
  }
  for (Node* node : reciprocals) HTPIPE_CHECK_OK(replace(graph, node, report));
  return report;
}

}  // namespace

const Pass& replace_reciprocal() {
  static const Pass pass = {"replace_reciprocal", "Turns reciprocals into rsqrt and quotients, which the chip has.",
                            run};
  return pass;
}

}  // namespace htpipe::passes
