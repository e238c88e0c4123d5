// Turns a sum of squares, which the HTP does not have, into a product and a sum.
// ReduceSumSquare(x) = ReduceSum(x * x).
// Invariant: behind the recognition of norms, which are made of such sums.
#include <fmt/core.h>

#include <string>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (!node->is("ReduceSumSquare") || !is_plain_float(*node)) continue;
    report.add(fmt::format("{} is the sum of a product", describe(*node)));
    const std::string name = node->name();
    Value* x = node->operands[0];
    HTPIPE_TRY(Node * square, graph.add_node("ElementWiseBinary", graph.unique_name(name + "_square"),
                                             {{"operation", std::string("multiply")}}, {x, x}, node->source, node));
    HTPIPE_TRY(Node * sum, graph.add_node("ReduceSum", graph.unique_name(name + "_sum"), node->attributes,
                                          {square->result()}, node->source, node));
    take_place(graph, *sum, node);
  }
  return report;
}

}  // namespace

const Pass& expand_sum_square() {
  static const Pass pass = {"expand_sum_square", "Turns sums of squares into products and sums, which the chip has.",
                            run};
  return pass;
}

}  // namespace htpipe::passes
