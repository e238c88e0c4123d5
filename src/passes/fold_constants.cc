// Computes nodes whose operands are all constant.
// Invariant: a constant grows to at most 4 times its operands and 16 MB, so that a model file of a few bytes cannot fill
// the memory. Outputs of the graph stay computed.
#include <fmt/core.h>

#include <cstdint>
#include <string>

#include "ops/evaluate.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

constexpr std::size_t kMaxGrowth = 4;
constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxScratchBytes = std::size_t{64} << 20;

bool is_foldable(const Graph& graph, const Node& node) {
  if (node.results.size() != 1 || graph.is_output(node.result()) || is_quantised(node)) return false;
  std::size_t operand_bytes = 0;
  for (const Value* operand : node.operands) {
    if (operand == nullptr) continue;
    if (!operand->is_constant()) return false;
    operand_bytes += operand->type.size_bytes();
  }
  const std::size_t result_bytes = node.result()->type.size_bytes();
  return operand_bytes > 0 && result_bytes <= kMaxGrowth * operand_bytes && result_bytes <= kMaxBytes;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (!is_foldable(graph, *node)) continue;
    // An operator without a rule for this node: nobody could execute it, and it is not ours to tell.
    auto tensors = evaluate(*node, kMaxScratchBytes);
    if (!tensors) continue;
    report.add(fmt::format("{} computed: its operands are constant", describe(*node)));
    const std::string name = node->name();
    Value* constant = graph.add_constant(name, std::move(tensors->front()));
    graph.replace_uses(node->result(), constant);
    erase_unused(graph, node);
    graph.rename(constant, name);
  }
  return report;
}

}  // namespace

const Pass& fold_constants() {
  static const Pass pass = {"fold_constants", "Computes nodes whose operands are all constant.", run};
  return pass;
}

}  // namespace htpipe::passes
