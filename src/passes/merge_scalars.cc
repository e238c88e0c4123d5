// Makes one step of two with numbers: (x * a) / b = x * (a / b); (x + a) - b = x + (a - b).
// Invariant: the new number is computed in double and rounded once; one that would not be finite, or would vanish, stays
// in two steps.
#include <fmt/core.h>

#include <cmath>
#include <optional>
#include <string>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

/// x and a number: a factor, or a term.
struct Step {
  Value* x;
  double number;
  bool factor;
};

std::optional<Step> step_of(const Node* node) {
  if (node == nullptr || !node->is("ElementWiseBinary") || !is_plain_float(*node)) return std::nullopt;
  if (node->attributes.text("activation") != "none") return std::nullopt;
  const std::string& operation = node->attributes.text("operation");
  const bool either = operation == "multiply" || operation == "add";
  for (const std::size_t data : {std::size_t{0}, std::size_t{1}}) {
    const auto number = scalar_of(node->operands[1 - data]);
    if (!number || node->operands[data]->type != node->result()->type || node->operands[data]->is_constant()) continue;
    const auto exact = static_cast<double>(*number);
    if (either) return Step{node->operands[data], exact, operation == "multiply"};
    if (data == 0 && operation == "subtract") return Step{node->operands[0], -exact, false};
    if (data == 0 && operation == "divide" && exact != 0) return Step{node->operands[0], 1 / exact, true};
  }
  return std::nullopt;
}

/// The number of both; nullopt when float32 does not hold it.
std::optional<float> joined(const Step& first, const Step& second) {
  const double exact = first.factor ? first.number * second.number : first.number + second.number;
  const auto number = static_cast<float>(exact);
  if (!std::isfinite(number)) return std::nullopt;
  if (first.factor && std::fabs(number) < 1e-30F && exact != 0) return std::nullopt;
  return number;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {  // a step in front of `node` has had its turn
    const auto second = step_of(node);
    if (!second) continue;
    Node* front = single_use_producer(graph, second->x);
    const auto first = step_of(front);
    if (!first || first->factor != second->factor) continue;
    const auto number = joined(*first, *second);
    if (!number) continue;
    report.add(fmt::format("{} and {} are one step", describe(*front), describe(*node)));
    Tensor constant({DType::kF32, {1}, std::nullopt});
    constant.mutable_data<float>()[0] = *number;
    Value* scalar = graph.add_constant(node->name() + "_number", std::move(constant));
    HTPIPE_TRY(Node * made, graph.add_node("ElementWiseBinary", node->name(),
                                           {{"operation", std::string(first->factor ? "multiply" : "add")}},
                                           {first->x, scalar}, node->source, node));
    take_place(graph, *made, node);
    erase_unused(graph, front);
  }
  return report;
}

}  // namespace

const Pass& merge_scalars() {
  static const Pass pass = {"merge_scalars", "Makes one step of two products, or sums, with numbers.", run};
  return pass;
}

}  // namespace htpipe::passes
