// Turns the quotient of a value and its Euclidean norm into one L2Norm.
// x / tile(max(sqrt(sum(x^2)), e)) = L2Norm(x), where the norm is taken along the axes that are tiled again.
// Invariant: the parts serve nothing else, and the smallest divisor stays.
#include <fmt/core.h>

#include <optional>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

struct Match {
  Value* input;
  std::vector<std::int64_t> axes;
  float epsilon;
};

bool is(const Node* node, std::string_view op, std::string_view operation) {
  return node != nullptr && node->is(op) && (operation.empty() || node->attributes.text("operation") == operation);
}

std::optional<Match> match(const Graph& graph, const Node& node) {
  if (!is(&node, "ElementWiseBinary", "divide") || !is_plain_float(node)) return std::nullopt;
  const Attribute* activation = node.attributes.find("activation");
  if (activation != nullptr && std::get<std::string>(*activation) != "none") return std::nullopt;
  const Node* divisor = single_use_producer(graph, node.operands[1]);
  if (is(divisor, "Tile", "")) divisor = single_use_producer(graph, divisor->operands[0]);
  if (!is(divisor, "ElementWiseBinary", "maximum")) return std::nullopt;
  const Value* least = divisor->operands[1];
  if (!least->is_constant() || least->type.count() != 1) return std::nullopt;
  const Node* root = single_use_producer(graph, divisor->operands[0]);
  if (!is(root, "ElementWiseUnary", "sqrt")) return std::nullopt;
  const Node* sum = single_use_producer(graph, root->operands[0]);
  if (!is(sum, "ReduceSumSquare", "") || !sum->attributes.flag("keep_dims")) return std::nullopt;
  if (sum->operands[0] != node.operands[0]) return std::nullopt;
  return Match{node.operands[0], sum->attributes.integers("axes"), to_floats(least->constant).front()};
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    const auto found = match(graph, *node);
    if (!found) continue;
    report.add(fmt::format("{} and the norm in front of it are one L2Norm", describe(*node)));
    const std::string name = node->name();
    HTPIPE_TRY(Node * norm, graph.add_node("L2Norm", name, {{"axes", found->axes}, {"epsilon", found->epsilon}},
                                           {found->input}, node->source, node));
    Value* divisor = node->operands[1];
    graph.replace_uses(node->result(), norm->result());
    graph.erase(node);
    graph.rename(norm->result(), name);
    for (Node* part = divisor->producer; part != nullptr && part != norm && part->result()->users.empty();) {
      Node* next = part->operands[0]->producer;
      erase_unused(graph, part);
      part = next == found->input->producer ? nullptr : next;
    }
  }
  return report;
}

}  // namespace

const Pass& fuse_l2_norm() {
  static const Pass pass = {"fuse_l2_norm", "Turns a value divided by its Euclidean norm into one L2Norm.", run};
  return pass;
}

}  // namespace htpipe::passes
