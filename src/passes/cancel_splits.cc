// Cancels what takes apart against what puts together: Concat of all parts of a Split, in order, is what was split; and a
// Split of a Concat at its seams gives the operands.
// Invariant: names of outputs stay; other parts of a Split stay for those who use them.
#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

std::int64_t axis_of(const Node& node) {
  const std::int64_t axis = node.attributes.integer("axis");
  return axis < 0 ? axis + static_cast<std::int64_t>(node.operands[0]->type.shape.size()) : axis;
}

/// What was split, where `concat` puts all parts of it together again; else null.
Value* whole_of(const Node& concat) {
  if (!concat.is("Concat") || concat.operands.front() == nullptr) return nullptr;
  const Node* split = concat.operands.front()->producer;
  if (split == nullptr || !split->is("Split") || split->results.size() != concat.operands.size()) return nullptr;
  if (split->results != concat.operands || axis_of(*split) != axis_of(concat)) return nullptr;
  return split->operands[0]->type == concat.result()->type ? split->operands[0] : nullptr;
}

/// The Concat whose operands `split` gives back; else null.
const Node* joined_by(const Node& split) {
  if (!split.is("Split")) return nullptr;
  const Node* concat = split.operands[0]->producer;
  if (concat == nullptr || !concat->is("Concat") || concat->operands.size() != split.results.size()) return nullptr;
  if (axis_of(split) != axis_of(*concat)) return nullptr;
  for (std::size_t i = 0; i < split.results.size(); ++i) {
    if (concat->operands[i] == nullptr || concat->operands[i]->type != split.results[i]->type) return nullptr;
  }
  return concat;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (node->operands.empty()) continue;
    if (Value* whole = whole_of(*node)) {
      std::string note = fmt::format("{} puts %{} together again", describe(*node), whole->name);
      if (bypass(graph, node, whole)) report.add(std::move(note));
      continue;
    }
    const Node* concat = joined_by(*node);
    if (concat == nullptr) continue;
    int moved = 0;
    for (std::size_t i = 0; i < node->results.size(); ++i) {
      if (graph.is_output(node->results[i]) || node->results[i]->users.empty()) continue;
      graph.replace_uses(node->results[i], concat->operands[i]);
      ++moved;
    }
    if (moved > 0) report.add(fmt::format("{} gives back what {} joined", describe(*node), describe(*concat)));
  }
  return report;
}

}  // namespace

const Pass& cancel_splits() {
  static const Pass pass = {"cancel_splits",
                            "Cancels a Split against the Concat of its parts, and the other way round.", run};
  return pass;
}

}  // namespace htpipe::passes
