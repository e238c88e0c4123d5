// Lets a MatMul transpose an operand by its flag, where a Transpose in front of it moved the last axis away: the Transpose
// keeps the last axis last then, which moves whole rows, or disappears. Query, key and value of one attention are
// permuted alike after that.
// MatMul(a, Transpose(b, [..,n,m])) = MatMul(a, Transpose(b, [..,m,n]), transpose_in1).
// The other direction, for formats whose product has no flags, is join_product_transposes.
#include <fmt/core.h>

#include <string>
#include <utility>

#include "passes/pass.h"
#include "passes/permutation.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

/// Whether `perm` moves the last axis to the last place but one.
bool moves_rows_apart(const Permutation& perm) {
  return perm.size() >= 2 && perm[perm.size() - 2] == static_cast<std::int64_t>(perm.size()) - 1;
}

Status flag(Graph& graph, Node& node, std::size_t index, const std::string& name) {
  Node* before = node.operands[index]->producer;
  Permutation perm = before->attributes.integers("perm");
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  Value* source = before->operands[0];
  HTPIPE_TRY(Value * rows, is_identity(perm) ? Result<Value*>(source) : transposed(graph, source, perm, node));
  graph.set_operand(node, index, rows);
  node.attributes.set(name, !node.attributes.flag(name));
  erase_unused(graph, before);
  return infer_again(node);
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (!node->is("MatMul") || is_quantised(*node)) continue;
    for (std::size_t i = 0; i < 2; ++i) {
      const Permutation* perm = permutation_of(node->operands[i]);
      if (perm == nullptr || !moves_rows_apart(*perm)) continue;
      report.add(fmt::format("{} transposes what {} made", describe(*node), describe(*node->operands[i]->producer)));
      HTPIPE_CHECK_OK(flag(graph, *node, i, i == 0 ? "transpose_in0" : "transpose_in1"));
    }
  }
  return report;
}

}  // namespace

const Pass& flag_product_transposes() {
  static const Pass pass = {"flag_product_transposes",
                            "Lets a MatMul transpose by its flag what a Transpose with a moved last axis made.", run};
  return pass;
}

}  // namespace htpipe::passes
