// Computes nodes whose operands are all constant.
// Invariant: a constant grows to at most 4 times its operands and 16 MB, so that a model file of a few bytes cannot fill
// the memory. Outputs of the graph stay computed.
#include <fmt/core.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

/// nullopt when the operator has no rule for this node: then nobody could execute it, and it is not ours to tell.
std::optional<Tensor> compute_float(const Node& node) {
  if (!node.op->float_kernel) return std::nullopt;
  const NodeTypes types(node);
  const auto kernel = node.op->float_kernel({types.view(), types.results(), 0});
  if (!kernel || kernel->scratch_bytes > kMaxScratchBytes) return std::nullopt;
  Tensor result(node.result()->type);
  std::vector<const void*> operands;
  for (const Value* operand : node.operands) {
    operands.push_back(operand != nullptr ? operand->constant.bytes().data() : nullptr);
  }
  void* results[] = {result.mutable_data<std::byte>().data()};
  std::vector<std::uint64_t> scratch(kernel->scratch_bytes / sizeof(std::uint64_t) + 1);
  kernel->run({operands, results, reinterpret_cast<std::byte*>(scratch.data())});
  return result;
}

std::optional<Tensor> compute(const Node& node) {
  if (is_plain_float(node)) return compute_float(node);
  // Other data types have no kernel here; moving elements needs none.
  if (node.is("Reshape")) return node.operands[0]->constant.with_type(node.result()->type);
  if (node.is("Transpose")) return transpose(node.operands[0]->constant, node.attributes.integers("perm"));
  return std::nullopt;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (!is_foldable(graph, *node)) continue;
    auto tensor = compute(*node);
    if (!tensor) continue;
    report.add(fmt::format("{} computed: its operands are constant", describe(*node)));
    const std::string name = node->name();
    Value* constant = graph.add_constant(name, std::move(*tensor));
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
