#include "passes/rewrite.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace htpipe::passes {
namespace {

template <typename Test>
bool any_value(const Node& node, Test test) {
  const auto present = [&test](const Value* value) { return value != nullptr && test(*value); };
  return std::any_of(node.operands.begin(), node.operands.end(), present) ||
         std::any_of(node.results.begin(), node.results.end(), present);
}

bool is_input(const Graph& graph, const Value* value) {
  return std::find(graph.inputs().begin(), graph.inputs().end(), value) != graph.inputs().end();
}

}  // namespace

std::string describe(const Node& node) {
  std::string text = fmt::format("{} %{}", node.op->name, node.name());
  if (!node.source.layer.empty() && node.source.layer != node.name()) {
    text += fmt::format(" (layer {})", node.source.layer);
  }
  return text;
}

bool is_plain_float(const Node& node) {
  return !any_value(node, [](const Value& value) { return value.type.dtype != DType::kF32 || value.type.encoding; });
}

bool is_quantised(const Node& node) {
  return any_value(node, [](const Value& value) { return value.type.encoding.has_value(); });
}

std::optional<float> scalar_of(const Value* value) {
  if (!value->is_constant() || value->type.count() != 1 || value->type.dtype != DType::kF32) return std::nullopt;
  return value->constant.data<float>().front();
}

bool is_finite_constant(const Value* value) {
  if (value == nullptr || !value->is_constant() || value->type.dtype != DType::kF32) return false;
  const auto values = value->constant.data<float>();
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

std::optional<std::size_t> operand_with(const OpDef& op, Role role) {
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i].role == role) return i;
  }
  return std::nullopt;
}

Node* single_use_producer(const Graph& graph, const Value* value) {
  return value->users.size() == 1 && !graph.is_output(value) ? value->producer : nullptr;
}

std::vector<Node*> node_list(const Graph& graph) {
  std::vector<Node*> nodes;
  nodes.reserve(graph.nodes().size());
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  return nodes;
}

void absorb(Graph& graph, Node& producer, Node* consumer) {
  const std::string name = consumer->name();
  const std::set<Value*> operands(consumer->operands.begin(), consumer->operands.end());
  graph.replace_uses(consumer->result(), producer.result());
  graph.erase(consumer);
  graph.rename(producer.result(), name);
  for (Value* operand : operands) erase_unused(graph, operand);
}

void take_place(Graph& graph, Node& made, Node* old) {
  const std::string name = old->name();
  graph.replace_uses(old->result(), made.result());
  erase_unused(graph, old);
  graph.rename(made.result(), name);
}

bool bypass(Graph& graph, Node* node, Value* value) {
  Value* result = node->result();
  const bool renames = graph.is_output(result);
  if (renames && (is_input(graph, value) || value->is_constant() || graph.is_output(value))) return false;
  const std::string name = result->name;
  graph.replace_uses(result, value);
  graph.erase(node);
  if (renames) graph.rename(value, name);
  return true;
}

void erase_unused(Graph& graph, Value* constant) {
  if (constant == nullptr || !constant->is_constant() || !constant->users.empty() || graph.is_output(constant)) return;
  graph.erase(constant);
}

void erase_unused(Graph& graph, Node* node) {
  for (const Value* result : node->results) {
    if (!result->users.empty() || graph.is_output(result)) return;
  }
  const std::set<Value*> operands(node->operands.begin(), node->operands.end());
  graph.erase(node);
  for (Value* operand : operands) erase_unused(graph, operand);
}

Status infer_again(Node& node) {
  auto types = node.op->infer(NodeTypes(node).view());
  if (!types) return fail(std::move(types.error()).at_node(node.name()));
  for (std::size_t i = 0; i < node.results.size(); ++i) node.results[i]->type = std::move((*types)[i]);
  return {};
}

const Node* next_node(const Graph& graph, const Node& node) {
  const auto next = std::next(node.place);
  return next == graph.nodes().end() ? nullptr : next->get();
}

}  // namespace htpipe::passes
