// Removes nodes and constants that reach no output.
// Invariant: inputs of the graph stay, used or not.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

/// One sentence for all: an imported Batchnorm alone leaves four.
std::string describe_constants(const std::vector<Value*>& constants) {
  constexpr std::size_t kNamed = 4;
  std::vector<std::string> names;
  for (const Value* constant : constants) {
    if (names.size() == kNamed) break;
    names.push_back("%" + constant->name);
  }
  std::string text =
      fmt::format("{} unused: {}", constants.size() == 1 ? "constant" : "constants", fmt::join(names, ", "));
  if (constants.size() > kNamed) text += fmt::format(" and {} more", constants.size() - kNamed);
  return text;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  std::vector<Node*> nodes = node_list(graph);
  std::reverse(nodes.begin(), nodes.end());
  for (Node* node : nodes) {
    const bool used = std::any_of(node->results.begin(), node->results.end(), [&graph](const Value* result) {
      return !result->users.empty() || graph.is_output(result);
    });
    if (used) continue;
    report.add(fmt::format("{} reaches no output", describe(*node)));
    graph.erase(node);
  }
  std::vector<Value*> unused;
  for (const auto& value : graph.values()) {
    if (value->is_constant() && value->users.empty() && !graph.is_output(value.get())) unused.push_back(value.get());
  }
  if (unused.empty()) return report;
  report.rewrites += static_cast<int>(unused.size());
  report.notes.push_back(describe_constants(unused));
  for (Value* constant : unused) graph.erase(constant);
  return report;
}

}  // namespace

const Pass& remove_dead_code() {
  static const Pass pass = {"remove_dead_code", "Removes nodes and constants that reach no output.", run};
  return pass;
}

}  // namespace htpipe::passes
