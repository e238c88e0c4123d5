// Merges linear layers of one input into one, whose result a Split takes apart: the projections of query, key and value
// read the input once, and the chip gets one large product.
// Split([x Wq + bq, x Wk + bk, x Wv + bv]) = Split(x [Wq Wk Wv] + [bq bk bv]).
// Invariant: the parts keep their names. Weights that fill more than kMostBytes together stay as they are, because they
// would have to be copied out of the model's file.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr std::size_t kFewest = 3;  ///< two layers and a Split are no fewer than two layers
constexpr std::size_t kWeight = 1;
constexpr std::size_t kBias = 2;

using Nodes = std::vector<Node*>;

bool is_constant_float(const Value* value) {
  return value != nullptr && value->is_constant() && value->type.dtype == DType::kF32;
}

bool may_merge(const Node& node) {
  if (!node.is("FullyConnected") || !is_plain_float(node) || !is_constant_float(node.operands[kWeight])) return false;
  if (node.operands[kBias] != nullptr && !is_constant_float(node.operands[kBias])) return false;
  return node.attributes.text("activation") == "none" && node.attributes.flag("keep_dims");
}

/// The linear layers of `input` in execution order.
Nodes siblings(const Value& input) {
  Nodes found;
  for (Node* user : input.users) {
    if (user->operands[0] == &input && may_merge(*user) && std::find(found.begin(), found.end(), user) == found.end()) {
      found.push_back(user);
    }
  }
  std::sort(found.begin(), found.end(), Graph::stands_before);
  return found;
}

std::int64_t outputs_of(const Node& node) { return node.operands[kWeight]->type.shape[0]; }

std::size_t bytes_of(const Nodes& nodes) {
  std::size_t bytes = 0;
  for (const Node* node : nodes) bytes += node->operands[kWeight]->type.size_bytes();
  return bytes;
}

/// The constants behind each other, along their first axis; zeros for an absent one.
Tensor stacked(const Nodes& nodes, std::size_t operand, Shape shape) {
  Tensor result(TensorType{DType::kF32, std::move(shape), std::nullopt});
  const auto elements = result.mutable_data<float>();
  const std::int64_t width = nodes.front()->operands[kWeight]->type.shape[1];
  auto to = elements.begin();
  for (const Node* node : nodes) {
    const auto count = static_cast<std::ptrdiff_t>(outputs_of(*node) * (operand == kWeight ? width : 1));
    if (const Value* part = node->operands[operand]) {
      const auto from = part->constant.data<float>();
      std::copy(from.begin(), from.end(), to);
    }
    to += count;
  }
  return result;
}

std::string joined_name(const Nodes& nodes) {
  std::vector<std::string> names;
  for (const Node* node : nodes) names.push_back(node->name());
  return fmt::format("{}", fmt::join(names, "_"));
}

Status merge(Graph& graph, const Nodes& nodes) {
  const Node& first = *nodes.front();
  Value* input = first.operands[0];
  std::vector<std::int64_t> cuts;
  std::int64_t outputs = 0;
  for (const Node* node : nodes) {
    if (outputs > 0) cuts.push_back(outputs);
    outputs += outputs_of(*node);
  }
  const std::string name = joined_name(nodes);
  std::vector<Value*> operands = {
      input, graph.add_constant(name + "_weight", stacked(nodes, kWeight, {outputs, input->type.shape.back()}))};
  const bool biased =
      std::any_of(nodes.begin(), nodes.end(), [](const Node* n) { return n->operands[kBias] != nullptr; });
  operands.push_back(biased ? graph.add_constant(name + "_bias", stacked(nodes, kBias, {outputs})) : nullptr);
  HTPIPE_TRY(Node * whole,
             graph.add_node("FullyConnected", name, {{"keep_dims", true}}, operands, first.source, &first));
  const auto axis = static_cast<std::int64_t>(whole->result()->type.shape.size()) - 1;
  HTPIPE_TRY(Node * split, graph.add_node("Split", name + "_split", {{"axis", axis}, {"split_index", cuts}},
                                          {whole->result()}, first.source, &first));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node* node = nodes[i];
    const std::string part = node->name();
    graph.replace_uses(node->result(), split->results[i]);
    Value* weight = node->operands[kWeight];
    Value* bias = node->operands[kBias];
    graph.erase(node);
    erase_unused(graph, weight);
    erase_unused(graph, bias);
    graph.rename(split->results[i], part);
  }
  return {};
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  std::vector<std::string>
      inputs;  // by name: the input of some layers may be one of others, and become a Split's result
  for (Node* node : node_list(graph)) {
    if (may_merge(*node) && siblings(*node->operands[0]).front() == node) inputs.push_back(node->operands[0]->name);
  }
  for (const std::string& input : inputs) {
    const Nodes nodes = siblings(*graph.find_value(input));
    if (nodes.size() < kFewest || bytes_of(nodes) > kMostBytes) continue;
    report.add(fmt::format("{} linear layers of %{} are one: {}", nodes.size(), input, joined_name(nodes)));
    HTPIPE_CHECK_OK(merge(graph, nodes));
  }
  return report;
}

}  // namespace

const Pass& merge_linears() {
  static const Pass pass = {"merge_linears",
                            "Merges linear layers of one input, such as query, key and value, into one.", run};
  return pass;
}

}  // namespace htpipe::passes
