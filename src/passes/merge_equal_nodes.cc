// Computes once what is computed twice: nodes with the same operator, attributes and operands become one, and so do small
// constants with the same elements. (Common subexpression elimination.)
// Invariant: an output of the graph keeps its own node, unless the other is none.
#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

/// Larger constants are not compared: their bytes may still lie in the model's file.
constexpr std::size_t kSmallBytes = 4096;

std::string text_of(const Attributes& attributes) {
  std::string text;
  for (const auto& [name, value] : attributes.items()) text += fmt::format("{}={};", name, to_string(value));
  return text;
}

class Merger {
 public:
  explicit Merger(Graph& graph) : graph_(graph) {}

  Result<PassReport> run() {
    merge_constants();
    for (Node* node : node_list(graph_)) merge(*node);
    return std::move(report_);
  }

 private:
  void merge_constants() {
    std::unordered_map<std::string, Value*> known;
    std::vector<Value*> constants;
    for (const auto& value : graph_.values()) {
      if (value->is_constant() && value->type.size_bytes() <= kSmallBytes && !graph_.is_output(value.get())) {
        constants.push_back(value.get());
      }
    }
    for (Value* value : constants) {
      const auto bytes = value->constant.bytes();
      std::string key = to_string(value->type) + '|';
      key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      const auto [first, added] = known.try_emplace(std::move(key), value);
      if (!added) replacement_.emplace(value, first->second);
    }
  }

  Value* representative(Value* value) const {
    const auto found = replacement_.find(value);
    return found == replacement_.end() ? value : found->second;
  }

  std::string key_of(const Node& node) const {
    std::string key = fmt::format("{}|{}|", node.op->name, text_of(node.attributes));
    for (Value* operand : node.operands) key += fmt::format("{},", static_cast<const void*>(representative(operand)));
    return key;
  }

  void merge(Node& node) {
    const auto [first, added] = nodes_.try_emplace(key_of(node), &node);
    if (added) return;
    Node& kept = *first->second;
    // Types can differ where the quantiser gave them encodings of their own.
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      if (node.results[i]->type != kept.results[i]->type) return;
    }
    const auto is_output = [this](const Value* value) { return graph_.is_output(value); };
    const bool outputs = std::any_of(node.results.begin(), node.results.end(), is_output);
    if (outputs && (node.results.size() > 1 || is_output(kept.result()))) return;
    report_.add(fmt::format("{} is {}", describe(node), describe(kept)));
    const std::vector<Value*> operands = node.operands;
    if (node.results.size() == 1) {
      if (!bypass(graph_, &node, kept.result())) return;
    } else {
      for (std::size_t i = 0; i < node.results.size(); ++i) graph_.replace_uses(node.results[i], kept.results[i]);
      graph_.erase(&node);
    }
    for (Value* operand : std::set<Value*>(operands.begin(), operands.end())) erase_unused(graph_, operand);
  }

  Graph& graph_;
  PassReport report_;
  std::unordered_map<std::string, Node*> nodes_;
  std::unordered_map<Value*, Value*> replacement_;  ///< of a constant, for the comparison of nodes only
};

Result<PassReport> run(Graph& graph) { return Merger(graph).run(); }

}  // namespace

const Pass& merge_equal_nodes() {
  static const Pass pass = {"merge_equal_nodes", "Computes once what is computed twice.", run};
  return pass;
}

}  // namespace htpipe::passes
