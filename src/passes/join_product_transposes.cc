// A MatMul that transposes an operand which a Transpose makes takes one Transpose of both instead. For formats whose
// product cannot transpose (ONNX); a chip that can is better off without this pass.
#include <fmt/core.h>

#include <string>
#include <utility>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

Status join(Graph& graph, Node& node, std::size_t index, const std::string& flag) {
  Node* first = node.operands[index]->producer;
  Permutation swap = first->attributes.integers("perm");
  std::swap(swap[swap.size() - 2], swap[swap.size() - 1]);
  Value* source = first->operands[0];
  HTPIPE_TRY(Value * joined, is_identity(swap) ? Result<Value*>(source) : transposed(graph, source, swap, node));
  graph.set_operand(node, index, joined);
  node.attributes.set(flag, false);
  erase_unused(graph, first);
  return infer_again(node);
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (!node->is("MatMul") || is_quantised(*node)) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      const std::string flag = i == 0 ? "transpose_in0" : "transpose_in1";
      const Permutation* perm = permutation_of(node->operands[i]);
      if (perm == nullptr || perm->size() < 2 || !node->attributes.flag(flag)) continue;
      report.add(fmt::format("{} takes one Transpose", describe(*node)));
      HTPIPE_CHECK_OK(join(graph, *node, i, flag));
    }
  }
  return report;
}

}  // namespace

const Pass& join_product_transposes() {
  static const Pass pass = {"join_product_transposes",
                            "Joins the transposition by a MatMul with the Transpose in front of it.", run};
  return pass;
}

}  // namespace htpipe::passes
