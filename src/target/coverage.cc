#include "target/coverage.h"

#include <fmt/core.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

namespace htpipe {
namespace {

using NodeIndex = std::map<std::string_view, const Node*>;

NodeIndex index_of(const Graph& graph) {
  NodeIndex index;
  for (const auto& node : graph.nodes()) {
    for (const Value* result : node->results) index.emplace(result->name, node.get());
  }
  return index;
}

const Node* find(const NodeIndex& index, const std::string& name) {
  const auto at = index.find(name);
  return at == index.end() ? nullptr : at->second;
}

bool all_constant(const Node& node) {
  for (const Value* operand : node.operands) {
    if (operand != nullptr && !operand->is_constant()) return false;
  }
  return true;
}

/// A node of the imported graph and the node of the optimised graph that has its name.
struct Namesakes {
  const Node* before = nullptr;
  const Node* after = nullptr;
};

/// The nearest node behind `node` whose name is still there, along single uses.
Namesakes successor(const Node& node, const NodeIndex& optimised) {
  const Node* at = &node;
  while (at->result()->users.size() == 1) {
    at = at->result()->users.front();
    if (const Node* found = find(optimised, at->name())) return {at, found};
  }
  return {};
}

/// The same before `node`, along its first operand.
Namesakes predecessor(const Node& node, const NodeIndex& optimised) {
  const Node* at = &node;
  while (!at->operands.empty() && at->operands.front() != nullptr) {
    at = at->operands.front()->producer;
    if (at == nullptr) break;
    if (const Node* found = find(optimised, at->name())) return {at, found};
  }
  return {};
}

/// "goes on as Conv2d %relu" for a convolution, "became part of Conv2d %relu" for what was merged into one.
std::string became(const Node& before, const Node& after) {
  return fmt::format("{} {} %{}", before.op == after.op ? "goes on as" : "became part of", after.op->name,
                     after.name());
}

/// What changed between a node and its namesake; empty when nothing did.
std::string difference(const Node& before, const Node& after) {
  if (before.op != after.op) return became(before, after);
  std::string changed;
  for (const auto& [name, value] : after.attributes.items()) {
    const Attribute* old = before.attributes.find(name);
    if (old != nullptr && *old == value) continue;
    if (!changed.empty()) changed += ", ";
    changed += name == "data_layout" ? std::string("channel-last") : fmt::format("{} {}", name, to_string(value));
  }
  return changed;
}

/// Judges one imported node by what the optimised graph holds in its place.
NodeVerdict verdict_for(const Node& node, const NodeIndex& optimised, const Graph& optimised_graph,
                        const Judge& judge) {
  NodeVerdict verdict{node.name(), std::string(node.op->name), node.layer(), Support::kNative, {}, {}};
  const auto judged_as = [&](const Node& heir, std::string how) {
    const NodeVerdict judged = judge(heir);
    verdict.heir = heir.name();
    if (judged.support == Support::kUnsupported) {
      verdict.support = Support::kUnsupported;
      verdict.reason = how.empty() ? judged.reason : fmt::format("{}: {}", how, judged.reason);
    } else if (judged.support == Support::kRewritten || !how.empty()) {
      verdict.support = Support::kRewritten;
      verdict.reason = how.empty() ? judged.reason : std::move(how);
    }
  };
  if (const Node* same = find(optimised, node.name())) {
    judged_as(*same, difference(node, *same));
    return verdict;
  }
  const Value* value = optimised_graph.find_value(node.name());
  if (all_constant(node) || (value != nullptr && value->is_constant())) {
    verdict.support = Support::kRewritten;
    verdict.reason = "computed in advance";
    return verdict;
  }
  // A pass that merges two nodes lets the earlier one go on under the name of the later one.
  const Namesakes behind = successor(node, optimised);
  if (behind.after != nullptr && (behind.after->op != behind.before->op || behind.after->op == node.op)) {
    judged_as(*behind.after, became(node, *behind.after));
    return verdict;
  }
  const Namesakes ahead = predecessor(node, optimised);
  if (node.op->exactness != Exactness::kCopy && ahead.after != nullptr &&
      !difference(*ahead.before, *ahead.after).empty()) {
    judged_as(*ahead.after, became(node, *ahead.after));
    return verdict;
  }
  verdict.support = Support::kRewritten;
  verdict.reason = "removed: nothing that is left needs it";
  return verdict;
}

/// Graphviz text in quotes.
std::string dot_text(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    result += letter == '\n' ? ' ' : letter;
  }
  return result + "\"";
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  for (const std::string& known : names) {
    if (known == name) return;
  }
  names.push_back(name);
}

}  // namespace

double Coverage::percent() const {
  return total() == 0 ? 100.0 : 100.0 * static_cast<double>(native + rewritten) / static_cast<double>(total());
}

Coverage cover(const Graph& imported, const Graph& optimised, const Target& target, Precision precision,
               const Judge& judge) {
  Coverage coverage;
  coverage.target = target.id;
  coverage.precision = precision;
  coverage.nodes.reserve(imported.nodes().size());
  const NodeIndex index = index_of(optimised);
  for (const auto& node : imported.nodes()) coverage.nodes.push_back(verdict_for(*node, index, optimised, judge));
  for (const NodeVerdict& node : coverage.nodes) {
    switch (node.support) {
      case Support::kNative:
        ++coverage.native;
        break;
      case Support::kRewritten:
        ++coverage.rewritten;
        break;
      case Support::kUnsupported:
        ++coverage.unsupported;
        break;
    }
  }
  return coverage;
}

Json to_json(const Coverage& coverage) {
  Json nodes = Json::array();
  for (const NodeVerdict& node : coverage.nodes) {
    Json line = {{"node", node.node}, {"op", node.op}, {"layer", node.layer}, {"support", name_of(node.support)}};
    if (!node.reason.empty()) line["reason"] = node.reason;
    nodes.push_back(std::move(line));
  }
  return {{"target", coverage.target},           {"precision", name_of(coverage.precision)},
          {"native", coverage.native},           {"rewritten", coverage.rewritten},
          {"unsupported", coverage.unsupported}, {"total", coverage.total()},
          {"percent", coverage.percent()},       {"nodes", std::move(nodes)}};
}

std::vector<LayerDependency> layer_dependencies(const Graph& graph) {
  std::vector<LayerDependency> layers;
  std::map<std::string, int> calls;
  std::map<const Node*, std::size_t> layer_of;
  std::string previous;
  for (const auto& node : graph.nodes()) {
    if (layers.empty() || node->layer() != previous) {
      previous = node->layer();
      const int call = ++calls[previous];
      layers.push_back({call == 1 ? previous : fmt::format("{}#{}", previous, call), {}, {}});
    }
    LayerDependency& layer = layers.back();
    layer.ops.emplace_back(node->op->name);
    layer_of[node.get()] = layers.size() - 1;
    for (const Value* operand : node->operands) {
      if (operand == nullptr || operand->is_constant()) continue;
      if (operand->producer == nullptr) {
        add_once(layer.depends_on, operand->name);
      } else if (const std::size_t from = layer_of.at(operand->producer); from != layers.size() - 1) {
        add_once(layer.depends_on, layers[from].layer);
      }
    }
  }
  return layers;
}

Json to_json(const std::vector<LayerDependency>& layers) {
  Json list = Json::array();
  for (const LayerDependency& layer : layers) {
    list.push_back({{"layer", layer.layer}, {"ops", layer.ops}, {"depends_on", layer.depends_on}});
  }
  return list;
}

std::string to_dot(const std::vector<LayerDependency>& layers, const std::string& graph_name) {
  std::string text = fmt::format("digraph {} {{\n  node [shape=box];\n", dot_text(graph_name));
  std::string edges;
  for (const LayerDependency& layer : layers) {
    std::string ops;
    for (const std::string& op : layer.ops) ops += (ops.empty() ? "" : ", ") + op;
    text += fmt::format("  {} [label={}];\n", dot_text(layer.layer), dot_text(layer.layer + ": " + ops));
    for (const std::string& from : layer.depends_on) {
      edges += fmt::format("  {} -> {};\n", dot_text(from), dot_text(layer.layer));
    }
  }
  return text + edges + "}\n";
}

}  // namespace htpipe
