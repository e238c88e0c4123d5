// Joins in one go what is joined step by step.
// Concat(a, Concat(b, c)) = Concat(a, b, c) along the same axis.
// Invariant: what others use as well stays.
#include <fmt/core.h>

#include <cstdint>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

std::int64_t axis_of(const Node& node) {
  const std::int64_t axis = node.attributes.integer("axis");
  return axis < 0 ? axis + static_cast<std::int64_t>(node.result()->type.shape.size()) : axis;
}

/// The Concat that makes `value` for `node` alone, along the same axis; null when there is none.
Node* part_of(const Graph& graph, Value* value, const Node& node) {
  if (value == nullptr || value->is_constant()) return nullptr;
  Node* part = single_use_producer(graph, value);
  const bool joins = part != nullptr && part->is("Concat") && !is_quantised(*part) && axis_of(*part) == axis_of(node);
  return joins ? part : nullptr;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  std::vector<Node*> whole;  // the last of each chain: the others become part of it
  for (Node* node : node_list(graph)) {
    if (!node->is("Concat") || is_quantised(*node)) continue;
    const auto& users = node->result()->users;
    const bool inner = users.size() == 1 && users.front()->is("Concat") && !is_quantised(*users.front()) &&
                       part_of(graph, node->result(), *users.front()) != nullptr;
    if (!inner) whole.push_back(node);
  }
  for (Node* node : whole) {
    std::vector<Node*> parts;
    std::vector<Value*> operands;
    std::vector<Value*> left(node->operands.rbegin(), node->operands.rend());  // a stack: the next one last
    while (!left.empty()) {
      Value* value = left.back();
      left.pop_back();
      Node* part = part_of(graph, value, *node);
      if (part == nullptr) {
        operands.push_back(value);
        continue;
      }
      parts.push_back(part);
      left.insert(left.end(), part->operands.rbegin(), part->operands.rend());
    }
    if (parts.empty()) continue;
    report.add(fmt::format("{} joins what {} others did", describe(*node), parts.size()));
    HTPIPE_TRY(Node * made,
               graph.add_node("Concat", node->name(), node->attributes, std::move(operands), node->source, node));
    take_place(graph, *made, node);
    for (Node* part : parts) graph.erase(part);  // those behind others first
  }
  return report;
}

}  // namespace

const Pass& merge_concats() {
  static const Pass pass = {"merge_concats", "Joins in one go what is joined step by step.", run};
  return pass;
}

}  // namespace htpipe::passes
