// Gives every linear layer rows: the chip's FullyConnected has one leading axis only (keep_dims must be 0).
// FullyConnected(x, w, keep_dims) = Reshape(FullyConnected(x, w)).
// Invariant: the name of the layer stays with the value that has its shape; the rows are "<name>_rows".
#include <fmt/core.h>

#include <string>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

Status flatten(Graph& graph, Node& node) {
  Value* rows = node.result();
  const std::string name = rows->name;
  const Shape shape = rows->type.shape;
  node.attributes.set("keep_dims", false);
  HTPIPE_CHECK_OK(infer_again(node));
  if (shape.size() == 2) return {};  // rows already
  HTPIPE_TRY(Node * reshape, graph.add_node("Reshape", name + "_kept", {{"shape", shape}}, {rows}, node.source,
                                            next_node(graph, node)));
  graph.replace_uses(rows, reshape->result());
  graph.set_operand(*reshape, 0, rows);
  graph.rename(rows, graph.unique_name(name + "_rows"));
  graph.rename(reshape->result(), name);
  return {};
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    if (!node->is("FullyConnected") || is_quantised(*node) || !node->attributes.flag("keep_dims")) continue;
    report.add(fmt::format("{} makes rows", describe(*node)));
    HTPIPE_CHECK_OK(flatten(graph, *node));
  }
  return report;
}

}  // namespace

const Pass& flatten_linear() {
  static const Pass pass = {"flatten_linear", "Lets linear layers make rows, which a Reshape gives their shape.", run};
  return pass;
}

}  // namespace htpipe::passes
