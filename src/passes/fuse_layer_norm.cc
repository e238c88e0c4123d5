// Turns a layer normalisation that was taken apart into one LayerNorm.
// (x - mean(x)) / sqrt(mean((x - mean(x))^2) + e) * gamma + beta, over the last axis.
// Invariant: the parts serve nothing else; gamma and beta are vectors along that axis.
#include <fmt/core.h>

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

struct Match {
  Value* input;
  Value* gamma;
  Value* beta;
  float epsilon;
  std::vector<Node*> parts;  ///< users before what they use
};

bool binary(const Node* node, std::initializer_list<std::string_view> operations) {
  if (node == nullptr || !node->is("ElementWiseBinary") || !is_plain_float(*node)) return false;
  return node->attributes.text("activation") == "none" &&
         std::find(operations.begin(), operations.end(), node->attributes.text("operation")) != operations.end();
}

/// Operand of a sum or product with a constant, and the constant.
std::optional<std::pair<Value*, Value*>> with_constant(const Node& node) {
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    if (node.operands[1 - i]->is_constant()) return std::pair(node.operands[i], node.operands[1 - i]);
  }
  return std::nullopt;
}

/// Whether `node` is the mean of `value` over its last axis, which stays.
bool is_mean(const Node* node, const Value* value) {
  if (node == nullptr || !node->is("ReduceMean") || !node->attributes.flag("keep_dims")) return false;
  const auto last = static_cast<std::int64_t>(value->type.shape.size()) - 1;
  return node->operands[0] == value && node->attributes.integers("axes") == std::vector<std::int64_t>{last};
}

bool is_square(const Node* node, const Value* value) {
  if (binary(node, {"power"}) && node->operands[0] == value) {
    const Value* exponent = node->operands[1];
    return exponent->is_constant() && exponent->type.count() == 1 && to_floats(exponent->constant).front() == 2.0F;
  }
  return binary(node, {"multiply"}) && node->operands[0] == value && node->operands[1] == value;
}

/// A vector along the last axis of `shape`.
bool is_vector(const Value& value, const Shape& shape) {
  return value.type.count() == shape.back() && !value.type.shape.empty() && value.type.shape.back() == shape.back();
}

std::optional<Match> match(const Graph& graph, Node& sum) {
  if (!binary(&sum, {"add"})) return std::nullopt;
  const auto outer = with_constant(sum);
  if (!outer) return std::nullopt;
  Node* product = single_use_producer(graph, outer->first);
  if (!binary(product, {"multiply"})) return std::nullopt;
  const auto inner = with_constant(*product);
  if (!inner) return std::nullopt;
  Node* quotient = single_use_producer(graph, inner->first);
  if (!binary(quotient, {"divide"})) return std::nullopt;
  Node* root = single_use_producer(graph, quotient->operands[1]);
  if (root == nullptr || !root->is("ElementWiseUnary") || root->attributes.text("operation") != "sqrt") {
    return std::nullopt;
  }
  Node* shifted = single_use_producer(graph, root->operands[0]);
  if (!binary(shifted, {"add"})) return std::nullopt;
  const auto variance = with_constant(*shifted);
  if (!variance || variance->second->type.count() != 1) return std::nullopt;
  const Value* centred = quotient->operands[0];
  Node* mean_square = single_use_producer(graph, variance->first);
  Node* square = mean_square == nullptr ? nullptr : single_use_producer(graph, mean_square->operands[0]);
  Node* difference = centred->producer;
  if (!is_square(square, centred) || !is_mean(mean_square, square->result()) || !binary(difference, {"subtract"})) {
    return std::nullopt;
  }
  Value* input = difference->operands[0];
  Node* mean = single_use_producer(graph, difference->operands[1]);
  const auto users =
      static_cast<std::size_t>(square->is("ElementWiseBinary") && square->operands[1] == centred ? 3 : 2);
  if (!is_mean(mean, input) || centred->users.size() != users || graph.is_output(centred)) return std::nullopt;
  const Shape& shape = input->type.shape;
  if (!is_vector(*inner->second, shape) || !is_vector(*outer->second, shape) || sum.result()->type.shape != shape) {
    return std::nullopt;
  }
  return Match{input,
               inner->second,
               outer->second,
               to_floats(variance->second->constant).front(),
               {&sum, product, quotient, root, shifted, mean_square, square, difference, mean}};
}

/// The constant as a vector.
Value* vector_of(Graph& graph, Value* constant) {
  if (constant->type.shape.size() == 1) return constant;
  TensorType type = constant->type;
  type.shape = {type.count()};
  return graph.add_constant(constant->name + "_vector", constant->constant.with_type(type));
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    const auto found = match(graph, *node);
    if (!found) continue;
    report.add(fmt::format("{} and what is in front of it are one LayerNorm", describe(*node)));
    const std::string name = node->name();
    const auto last = static_cast<std::int64_t>(found->input->type.shape.size()) - 1;
    HTPIPE_TRY(Node * norm,
               graph.add_node(
                   "LayerNorm", name, {{"axes", std::vector<std::int64_t>{last}}, {"epsilon", found->epsilon}},
                   {found->input, vector_of(graph, found->gamma), vector_of(graph, found->beta)}, node->source, node));
    graph.replace_uses(node->result(), norm->result());
    for (Node* part : found->parts) erase_unused(graph, part);
    graph.rename(norm->result(), name);
  }
  return report;
}

}  // namespace

const Pass& fuse_layer_norm() {
  static const Pass pass = {"fuse_layer_norm", "Turns a layer normalisation that was taken apart into one LayerNorm.",
                            run};
  return pass;
}

}  // namespace htpipe::passes
