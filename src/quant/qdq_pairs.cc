#include "quant/qdq_pairs.h"

#include <utility>
#include <vector>

#include "passes/rewrite.h"

namespace htpipe::quant {

Stored strip_pairs(Graph& graph) {
  Stored stored;
  std::vector<Node*> quantizers;
  for (Node* node : passes::node_list(graph)) {
    if (node->is("Quantize") && has_encoding(node->result()) && !node->operands[0]->is_constant()) {
      quantizers.push_back(node);
    }
  }
  for (Node* node : quantizers) {
    Value* real = node->operands[0];
    Value* integers = node->result();
    if (real->type.dtype != DType::kF32) continue;
    const auto [at, added] = stored.emplace(real->name, integers->type);
    if (!added && !same_storage(at->second, integers->type)) continue;
    const std::vector<Node*> users = integers->users;
    for (Node* user : users) {
      if (!user->is("Dequantize") || user->result()->type.dtype != DType::kF32) continue;
      if (graph.is_output(user->result())) continue;
      graph.replace_uses(user->result(), real);
      graph.erase(user);
    }
    if (integers->users.empty() && !graph.is_output(integers)) graph.erase(node);
  }
  return stored;
}

std::optional<Tensor> stored_constant(const Value* value) {
  if (value->is_constant()) return has_encoding(value) ? std::optional(value->constant) : std::nullopt;
  const Node* node = value->producer;
  if (node == nullptr) return std::nullopt;
  if (node->is("Dequantize")) return stored_constant(node->operands[0]);
  if (node->is("Transpose")) {
    auto tensor = stored_constant(node->operands[0]);
    if (tensor) tensor = transpose(*tensor, node->attributes.integers("perm"));
    return tensor;
  }
  if (node->is("Reshape")) {
    auto tensor = stored_constant(node->operands[0]);
    if (!tensor || !tensor->type().encoding->per_tensor()) return std::nullopt;
    TensorType type = tensor->type();
    type.shape = value->type.shape;
    return tensor->with_type(std::move(type));
  }
  return std::nullopt;
}

namespace {

/// The Add behind a product that gives it a bias and sees it alone; null where there is none.
Node* bias_behind(const Graph& graph, const Node& product, const Stored& stored) {
  const Value* result = product.results[0];
  if (result->users.size() != 1 || graph.is_output(result) || stored.count(result->name) != 0) return nullptr;
  Node* add = result->users[0];
  if (!add->is("ElementWiseBinary") || add->attributes.text("operation") != "add") return nullptr;
  if (add->attributes.text("activation") != "none" && add->attributes.text("activation") != "relu") return nullptr;
  const Value* other = add->operands[add->operands[0] == result ? 1 : 0];
  const Shape& shape = other->type.shape;
  const bool vector = shape.size() == 1 && shape[0] == result->type.shape.back();
  return vector && (other->is_constant() || stored_constant(other)) ? add : nullptr;
}

}  // namespace

Status join_products(Graph& graph, const Stored& stored) {
  std::vector<Node*> products;
  for (Node* node : passes::node_list(graph)) {
    if (node->is("MatMul") && !node->attributes.flag("transpose_in0")) products.push_back(node);
  }
  for (Node* node : products) {
    Value* weight = node->operands[1];
    if (weight->type.shape.size() != 2 || node->operands[0]->type.shape.size() < 2) continue;
    const auto integers = stored_constant(weight);
    if (!integers) continue;
    Node* add = bias_behind(graph, *node, stored);
    if (add == nullptr && integers->type().encoding->per_tensor()) continue;
    Node* last = add != nullptr ? add : node;
    Value* bias = add == nullptr ? nullptr : add->operands[add->operands[0] == node->result() ? 1 : 0];
    if (!node->attributes.flag("transpose_in1")) {
      HTPIPE_TRY(Node * turned, graph.add_node("Transpose", weight->name + "_turned",
                                               {{"perm", std::vector<std::int64_t>{1, 0}}}, {weight}, {}, last));
      weight = turned->result();
    }
    Attributes attributes;
    if (add != nullptr) attributes.set("activation", add->attributes.text("activation"));
    HTPIPE_TRY(Node * made, graph.add_node("FullyConnected", last->name(), attributes,
                                           {node->operands[0], weight, bias}, last->source, last));
    if (made->result()->type.shape != last->result()->type.shape) {  // the chip joins the axes in front
      HTPIPE_TRY(made, graph.add_node("Reshape", last->name(), {{"shape", last->result()->type.shape}},
                                      {made->result()}, last->source, last));
    }
    const std::string name = last->name();
    graph.replace_uses(last->result(), made->result());
    graph.erase(last);
    if (last != node) graph.erase(node);
    graph.rename(made->result(), name);
  }
  return {};
}

}  // namespace htpipe::quant
