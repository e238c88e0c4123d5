// Lets what stands between linear layers work on their rows, where that takes fewer Reshapes: a linear layer makes rows
// [n, d], which a Reshape gives the shape of its input, [.., d].
// f(Reshape(x)) = Reshape(f(x)) for everything that works element by element or along the last axis.
// Nodes of one shape that follow each other are judged together. In rows they save the Reshapes behind linear layers,
// and cost one for each value that comes from or goes to something else. A linear layer and a Reshape take either.
// Invariant: the last axis stays; no value gets another name unless it is an output, whose name goes to the Reshape.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

Shape rows_of(const Shape& shape) { return {element_count(Shape(shape.begin(), shape.end() - 1)), shape.back()}; }

/// A constant that rows broadcast as they broadcast it now.
bool fits_rows(const Value& constant) { return constant.type.count() == 1 || constant.type.shape.size() <= 1; }

bool works_along_last_axis(const Node& node) {
  const auto last = static_cast<std::int64_t>(node.result()->type.shape.size()) - 1;
  if (node.is("LayerNorm") || node.is("RmsNorm"))
    return node.attributes.integers("axes") == std::vector<std::int64_t>{last};
  if (node.is("Softmax") || node.is("LogSoftmax")) return node.attributes.integer("axis") == last;
  return false;
}

/// Whether `node` computes the same in rows.
bool may_work_on_rows(const Node& node) {
  if (node.results.size() != 1 || is_quantised(node)) return false;
  const Shape& shape = node.result()->type.shape;
  if (shape.size() < 3 || (node.op->layout != Layout::kElementwise && !works_along_last_axis(node))) return false;
  bool any = false;
  for (const Value* operand : node.operands) {
    if (operand == nullptr) continue;
    const bool whole = operand->type.shape == shape && !operand->is_constant();
    if (!whole && !(operand->is_constant() && fits_rows(*operand))) return false;
    any |= whole;
  }
  return any;
}

/// Nodes of one shape that follow each other, by the first of them.
class Components {
 public:
  explicit Components(const std::vector<Node*>& nodes) {
    for (Node* node : nodes) {
      if (may_work_on_rows(*node)) parent_[node] = node;
    }
    for (Node* node : nodes) {
      if (!holds(node)) continue;
      for (const Value* operand : node->operands) {
        if (operand != nullptr && holds(operand->producer)) join(operand->producer, node);
      }
    }
    std::unordered_map<const Node*, std::size_t> places;
    for (Node* node : nodes) {
      if (!holds(node)) continue;
      const auto [place, added] = places.try_emplace(root(node), lists_.size());
      if (added) lists_.emplace_back();
      lists_[place->second].push_back(node);
    }
  }
  [[nodiscard]] bool holds(const Node* node) const { return node != nullptr && parent_.contains(node); }
  /// In execution order, each too.
  [[nodiscard]] const std::vector<std::vector<Node*>>& lists() const { return lists_; }

 private:
  const Node* root(const Node* node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }
  void join(const Node* a, const Node* b) { parent_[root(b)] = root(a); }

  std::unordered_map<const Node*, const Node*> parent_;
  std::vector<std::vector<Node*>> lists_;
};

/// Whether `node` takes [.., d] and rows alike.
bool takes_either(const Node& node, const Value& value) {
  if (node.is("Reshape")) return true;
  return node.is("FullyConnected") && node.operands[0] == &value && !node.attributes.flag("keep_dims");
}

/// The Reshapes that a component has now, and what it would have in rows.
struct Cost {
  std::int64_t now = 0;
  std::int64_t rows = 0;
};

Cost cost_of(const Graph& graph, const std::vector<Node*>& nodes) {
  const std::set<const Node*> inside(nodes.begin(), nodes.end());
  const Shape rows = rows_of(nodes.front()->result()->type.shape);
  Cost cost;
  std::set<const Value*> seen;
  for (const Node* node : nodes) {
    for (const Value* operand : node->operands) {
      if (operand == nullptr || operand->is_constant() || inside.contains(operand->producer)) continue;
      if (!seen.insert(operand).second) continue;
      const bool reshaped = operand->producer != nullptr && operand->producer->is("Reshape");
      if (!reshaped || operand->producer->operands[0]->type.shape != rows) {
        cost.rows += reshaped ? 0 : 1;
        continue;
      }
      // The Reshape of rows goes when nobody else needs it.
      const bool only_here = std::all_of(operand->users.begin(), operand->users.end(), [&](const Node* user) {
        return inside.contains(user) || takes_either(*user, *operand);
      });
      if (only_here && !graph.is_output(operand)) ++cost.now;
    }
    const Value* result = node->result();
    bool others = graph.is_output(result);
    for (const Node* user : result->users) {
      if (inside.contains(user)) continue;
      if (user->is("Reshape") && user->result()->type.shape == rows) ++cost.now;
      others |= !takes_either(*user, *result);
    }
    if (others) ++cost.rows;
  }
  return cost;
}

class Rows {
 public:
  Rows(Graph& graph, const std::vector<Node*>& nodes)
      : graph_(graph), inside_(nodes.begin(), nodes.end()), rows_(rows_of(nodes.front()->result()->type.shape)) {}

  Status turn(Node& node) {
    const Shape before = node.result()->type.shape;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      Value* operand = node.operands[i];
      if (operand == nullptr || operand->is_constant() || operand->type.shape == rows_) continue;
      HTPIPE_TRY(Value * rows, in_rows(*operand, node));
      graph_.set_operand(node, i, rows);
      drop_unused(operand, rows);
    }
    if (node.attributes.find("axes") != nullptr) node.attributes.set("axes", std::vector<std::int64_t>{1});
    if (node.attributes.find("axis") != nullptr) node.attributes.set("axis", std::int64_t{1});
    HTPIPE_CHECK_OK(infer_again(node));
    return give_back(node, before);
  }

 private:
  /// What a Reshape made of `value`, or a Reshape of it.
  Result<Value*> in_rows(Value& value, const Node& user) {
    const Node* producer = value.producer;
    if (producer != nullptr && producer->is("Reshape") && producer->operands[0]->type.shape == rows_) {
      return producer->operands[0];
    }
    Value*& known = known_[&value];
    if (known == nullptr) {
      HTPIPE_TRY(Node * reshape,
                 graph_.add_node("Reshape", value.name + "_rows", {{"shape", rows_}}, {&value}, user.source, &user));
      known = reshape->result();
    }
    return known;
  }

  /// A layer's name goes to its rows when they have no other shape any more.
  void drop_unused(Value* reshaped, Value* rows) {
    const std::string name = reshaped->name;
    if (!reshaped->users.empty() || graph_.is_output(reshaped) || rows->name != name + "_rows") return;
    if (reshaped->producer == nullptr || reshaped->producer->operands[0] != rows) return;
    graph_.erase(reshaped->producer);
    graph_.rename(rows, name);
  }

  /// Those who cannot take rows get a Reshape of the old shape.
  Status give_back(Node& node, const Shape& shape) {
    Value* result = node.result();
    std::vector<Node*> others;
    for (Node* user : result->users) {
      if (!inside_.contains(user) && !takes_either(*user, *result)) others.push_back(user);
    }
    const bool output = graph_.is_output(result);
    if (others.empty() && !output) return {};
    const std::string name = result->name;
    HTPIPE_TRY(Node * reshape, graph_.add_node("Reshape", name + "_kept", {{"shape", shape}}, {result}, node.source,
                                               next_node(graph_, node)));
    if (output) {
      std::vector<Value*> outputs = graph_.outputs();
      std::replace(outputs.begin(), outputs.end(), result, reshape->result());
      graph_.set_outputs(std::move(outputs));
      graph_.rename(result, graph_.unique_name(name + "_rows"));
      graph_.rename(reshape->result(), name);
    }
    for (Node* user : others) {
      for (std::size_t i = 0; i < user->operands.size(); ++i) {
        if (user->operands[i] == result && user != reshape) graph_.set_operand(*user, i, reshape->result());
      }
    }
    return {};
  }

  Graph& graph_;
  std::set<const Node*> inside_;
  Shape rows_;
  std::map<const Value*, Value*> known_;
};

Result<PassReport> run(Graph& graph) {
  PassReport report;
  const Components components(node_list(graph));
  for (const std::vector<Node*>& nodes : components.lists()) {
    const Cost cost = cost_of(graph, nodes);
    if (cost.rows >= cost.now) continue;
    report.add(fmt::format("{} nodes from {} on work on rows: {} Reshapes fewer", nodes.size(),
                           describe(*nodes.front()), cost.now - cost.rows));
    Rows rows(graph, nodes);
    for (Node* node : nodes) HTPIPE_CHECK_OK(rows.turn(*node));
    // Reshapes that nobody needs any more are dead code; those to the shape that there is are identities.
  }
  return report;
}

}  // namespace

const Pass& choose_rows() {
  static const Pass pass = {"choose_rows", "Lets what stands between linear layers work on rows, as they do.", run};
  return pass;
}

}  // namespace htpipe::passes
