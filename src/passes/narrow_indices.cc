// Gives the chip the indices that it takes: 32-bit numbers from 0 up. Constants are rewritten (a negative index counts
// from the end), computed 64-bit indices get a Cast. The chip reads a negative index as 0. A Gather by one number becomes
// one by a list of one, and a Reshape: QNN has no rank 0, and its Gather keeps the axis.
// Invariant: the same elements are picked.
#include <fmt/core.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/check.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

/// Which operand holds indices by its operator's definition.
std::size_t index_operand(const Node& node) {
  for (std::size_t i = 0; i < node.op->operands.size() && i < node.operands.size(); ++i) {
    if (node.op->operands[i].name == "indices" && node.operands[i] != nullptr) return i;
  }
  return kNone;
}

/// Size of the axis that element `i` of the indices counts along: the one of the attribute `axis`, or, where rows of
/// positions are given, one axis after the other.
std::int64_t counted_size(const Node& node, std::size_t operand, std::size_t i) {
  const Shape& data = node.operands[0]->type.shape;
  if (node.attributes.find("axis") != nullptr) {
    return data[static_cast<std::size_t>(node.attributes.integer("axis"))];
  }
  const auto depth = static_cast<std::size_t>(node.operands[operand]->type.shape.back());
  const Attribute* batch = node.attributes.find("batch_dims");
  const auto first = batch != nullptr ? static_cast<std::size_t>(std::get<std::int64_t>(*batch)) : std::size_t{0};
  return data[first + i % depth];
}

/// The constant as 32-bit indices from 0 up; nothing when it is that already or does not fit.
std::optional<Tensor> narrowed(const Node& node, std::size_t operand) {
  const Tensor& constant = node.operands[operand]->constant;
  std::vector<std::int64_t> indices = to_integers(constant);
  bool changed = constant.dtype() != DType::kI32;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0) {
      indices[i] += counted_size(node, operand, i);
      changed = true;
    }
    if (indices[i] < 0 || indices[i] > std::numeric_limits<std::int32_t>::max()) return std::nullopt;
  }
  if (!changed) return std::nullopt;
  const std::vector<std::int32_t> narrow(indices.begin(), indices.end());
  return Tensor::from<std::int32_t>({DType::kI32, constant.shape(), std::nullopt}, narrow);
}

/// Gather(x, i) = Reshape(Gather(x, [i])). Returns the new Gather.
Result<Node*> gather_by_list(Graph& graph, Node& node) {
  Value* index = node.operands[1];
  Value* list = nullptr;
  if (index->is_constant()) {
    list = graph.add_constant(index->name + "_list", index->constant.with_type({index->type.dtype, {1}, std::nullopt}));
  } else {
    HTPIPE_TRY(Node * reshape, graph.add_node("Reshape", index->name + "_list",
                                              {{"shape", std::vector<std::int64_t>{1}}}, {index}, node.source, &node));
    list = reshape->result();
  }
  const std::string name = node.name();
  HTPIPE_TRY(Node * gather,
             graph.add_node("Gather", name + "_list", node.attributes, {node.operands[0], list}, node.source, &node));
  HTPIPE_TRY(Node * reshape, graph.add_node("Reshape", name + "_one", {{"shape", node.result()->type.shape}},
                                            {gather->result()}, node.source, &node));
  for (Node* made : {gather, reshape}) made->result()->type.encoding = node.result()->type.encoding;
  HTPIPE_CHECK(bypass(graph, &node, reshape->result()), "a new value takes any place");
  if (reshape->name() != name) graph.rename(reshape->result(), name);
  return gather;
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    const std::size_t operand = index_operand(*node);
    if (operand == kNone) continue;
    if (node->is("Gather") && node->operands[1]->type.shape.empty()) {
      report.add(fmt::format("{} by one number is one by a list", describe(*node)));
      HTPIPE_TRY(node, gather_by_list(graph, *node));
    }
    Value* indices = node->operands[operand];
    const std::string name = indices->name + "_i32";
    if (indices->is_constant()) {
      const std::optional<Tensor> tensor = narrowed(*node, operand);
      if (!tensor) continue;
      report.add(fmt::format("{} takes its indices as 32-bit numbers from 0 up", describe(*node)));
      graph.set_operand(*node, operand, graph.add_constant(name, *tensor));
      erase_unused(graph, indices);
      continue;
    }
    if (indices->type.dtype != DType::kI64) continue;
    report.add(fmt::format("{} takes 32-bit indices", describe(*node)));
    HTPIPE_TRY(Node * cast, graph.add_node("Cast", name, {{"to", std::string("i32")}}, {indices}, node->source, node));
    graph.set_operand(*node, operand, cast->result());
  }
  return report;
}

}  // namespace

const Pass& narrow_indices() {
  static const Pass pass = {"narrow_indices", "Gives indices as 32-bit numbers from 0 up, as the chip takes them.",
                            run};
  return pass;
}

}  // namespace htpipe::passes
