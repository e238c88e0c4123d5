// Takes away what exporters put around the masks of attention: an indexing that picks every element in order, and a
// conjunction with a mask that is true everywhere.
// GatherNd(x, all indices in order) = Reshape(x); And(x, true) = x where its users broadcast x as the And did.
// Invariant: no shape of a value that stays changes.
#include <fmt/core.h>

#include <algorithm>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

/// Whether a GatherNd reads the elements of its operand one after the other.
bool reads_in_order(const Node& node) {
  if (!node.is("GatherNd") || !node.operands[1]->is_constant() || node.attributes.integer("batch_dims") != 0) {
    return false;
  }
  const Shape& shape = node.operands[0]->type.shape;
  const std::vector<std::int64_t> indices = to_integers(node.operands[1]->constant);
  if (node.operands[1]->type.shape.back() != static_cast<std::int64_t>(shape.size())) return false;
  if (node.result()->type.count() != node.operands[0]->type.count()) return false;
  for (std::size_t i = 0, place = 0; i < indices.size(); i += shape.size(), ++place) {
    std::int64_t at = 0;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) at = at * shape[axis] + indices[i + axis];
    if (at != static_cast<std::int64_t>(place)) return false;
  }
  return true;
}

bool all_true(const Value* value) {
  if (!value->is_constant() || value->type.dtype != DType::kBool) return false;
  const auto bytes = value->constant.bytes();
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte != std::byte{0}; });
}

/// The operand that an And with a mask of nothing but true gives back, however broadcast; null when it has none.
Value* other_than_true(const Node& node) {
  if (!node.is("ElementWiseBinary") || node.attributes.text("operation") != "and") return nullptr;
  if (all_true(node.operands[0])) return node.operands[1];
  return all_true(node.operands[1]) ? node.operands[0] : nullptr;
}

/// Whether every user of `value` makes the same of `smaller`, which broadcasts to it.
bool users_broadcast(const Graph& graph, const Value& value, const Value& smaller) {
  if (graph.is_output(&value)) return false;
  return std::all_of(value.users.begin(), value.users.end(), [&](const Node* user) {
    if (user->op->layout != Layout::kElementwise || user->operands.size() < 2) return false;
    std::vector<Value*> operands = user->operands;
    std::replace(operands.begin(), operands.end(), const_cast<Value*>(&value), const_cast<Value*>(&smaller));
    const auto types = user->op->infer(NodeTypes(user->attributes, operands).view());
    return types && types->front() == user->result()->type;
  });
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (node->operands.size() < 2 || node->operands[0] == nullptr || node->operands[1] == nullptr) continue;
    if (is_quantised(*node)) continue;
    if (reads_in_order(*node)) {
      report.add(fmt::format("{} reads every element in order: a Reshape now", describe(*node)));
      HTPIPE_TRY(Node * reshape, graph.add_node("Reshape", node->name(), {{"shape", node->result()->type.shape}},
                                                {node->operands[0]}, node->source, node));
      take_place(graph, *reshape, node);
      continue;
    }
    Value* other = other_than_true(*node);
    if (other == nullptr || other->is_constant() || !users_broadcast(graph, *node->result(), *other)) continue;
    report.add(fmt::format("{} with a mask that is true everywhere", describe(*node)));
    graph.replace_uses(node->result(), other);
    erase_unused(graph, node);
  }
  return report;
}

}  // namespace

const Pass& simplify_masks() {
  static const Pass pass = {"simplify_masks",
                            "Takes away indexing that picks everything and masks that are true everywhere.", run};
  return pass;
}

}  // namespace htpipe::passes
