// Lets a Split stand behind what all of its parts go through alike: one Reshape, one Transpose or one function of the whole
// instead of one for each part.
// f(a), f(b) of Split(x) = Split(f(x)), where f is elementwise with one operand, a permutation, or a Reshape that cuts
// the last axis into heads of one size.
// Invariant: nothing else sees the parts. A part takes the name of what it went through.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

/// The node in front of the Split, and how the Split cuts what it makes.
struct Move {
  Attributes attributes;
  std::int64_t axis = 0;
  std::vector<std::int64_t> cuts;
};

using Nodes = std::vector<Node*>;

/// The only user of each part; empty when a part has others, or they are not one operator.
Nodes users_of(const Graph& graph, const Node& split) {
  Nodes users;
  for (const Value* part : split.results) {
    if (part->users.size() != 1 || graph.is_output(part)) return {};
    Node* user = part->users.front();
    if (user->operands.front() != part || user->results.size() != 1 || user->op != split.results[0]->users[0]->op)
      return {};
    for (std::size_t i = 1; i < user->operands.size(); ++i) {
      if (user->operands[i] != nullptr) return {};
    }
    if (is_quantised(*user)) return {};
    users.push_back(user);
  }
  return users;
}

bool alike(const Nodes& users) {
  return std::all_of(users.begin(), users.end(),
                     [&](const Node* user) { return user->attributes == users.front()->attributes; });
}

/// Behind a Reshape that cuts the split axis, the last one, into heads: [.., heads * size] to [.., heads, size].
std::optional<Move> past_heads(const Node& split, const Nodes& users, std::int64_t axis) {
  const Shape& whole = split.operands[0]->type.shape;
  const auto at = static_cast<std::size_t>(axis);
  if (at + 1 != whole.size()) return std::nullopt;
  const Shape& first = users.front()->result()->type.shape;
  if (first.size() < at + 2) return std::nullopt;
  Move move{{}, axis, {}};
  std::int64_t heads = 0;
  for (const Node* user : users) {
    const Shape& shape = user->result()->type.shape;
    if (shape.size() != first.size() || !std::equal(whole.begin(), whole.end() - 1, shape.begin()) ||
        !std::equal(first.begin() + axis + 1, first.end(), shape.begin() + axis + 1)) {
      return std::nullopt;
    }
    if (heads > 0) move.cuts.push_back(heads);
    heads += shape[at];
  }
  Shape target = first;
  target[at] = heads;
  move.attributes.set("shape", target);
  return move;
}

std::optional<Move> find_move(const Node& split, const Nodes& users) {
  if (users.size() < 2) return std::nullopt;
  const Node& first = *users.front();
  const auto rank = static_cast<std::int64_t>(split.operands[0]->type.shape.size());
  std::int64_t axis = split.attributes.integer("axis");
  if (axis < 0) axis += rank;
  if (first.is("Reshape")) return past_heads(split, users, axis);
  if (!alike(users)) return std::nullopt;
  Move move{first.attributes, axis, split.attributes.integers("split_index")};
  if (first.is("Transpose")) {
    const Permutation& perm = first.attributes.integers("perm");
    move.axis = std::find(perm.begin(), perm.end(), axis) - perm.begin();
    return move;
  }
  const bool elementwise =
      first.op->layout == Layout::kElementwise && first.result()->type.shape == first.operands[0]->type.shape;
  return elementwise ? std::optional<Move>(move) : std::nullopt;
}

Status sink(Graph& graph, Node* split, const Nodes& users, const Move& move) {
  Value* whole = split->operands[0];
  const std::string name = fmt::format("{}_{}", whole->name, users.front()->is("Transpose") ? "transposed" : "whole");
  HTPIPE_TRY(Node * behind,
             graph.add_node(users.front()->op->name, name, move.attributes, {whole}, users.front()->source, split));
  HTPIPE_TRY(Node * parts,
             graph.add_node("Split", split->name() + "_moved", {{"axis", move.axis}, {"split_index", move.cuts}},
                            {behind->result()}, split->source, split));
  for (std::size_t i = 0; i < users.size(); ++i) {
    const std::string part = users[i]->name();
    graph.replace_uses(users[i]->result(), parts->results[i]);
    graph.erase(users[i]);
    graph.rename(parts->results[i], part);
  }
  graph.erase(split);
  return {};
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  Nodes splits;
  for (Node* node : node_list(graph)) {
    if (node->is("Split") && !is_quantised(*node)) splits.push_back(node);
  }
  for (Node* node : splits) {
    // The Split goes on behind the next common step, which makes it another node.
    for (Node* split = node; split != nullptr;) {
      const Nodes users = users_of(graph, *split);
      const auto move = users.empty() ? std::nullopt : find_move(*split, users);
      if (!move) break;
      report.add(fmt::format("{} parts of %{} go through one {}", users.size(), split->operands[0]->name,
                             users.front()->op->name));
      const std::string name = users.front()->name();
      HTPIPE_CHECK_OK(sink(graph, split, users, *move));
      split = graph.find_value(name)->producer;
    }
  }
  return report;
}

}  // namespace

const Pass& sink_splits() {
  static const Pass pass = {"sink_splits", "Lets a Split stand behind what all of its parts go through alike.", run};
  return pass;
}

}  // namespace htpipe::passes
