#include "check/assumed.h"

#include <utility>

#include "export/qnn_lowering.h"
#include "quant/assume.h"

namespace htpipe::check {
namespace {

bool is_typed(const Graph& graph) {
  for (const auto& value : graph.values()) {
    if (value->type.encoding || value->type.dtype == DType::kF16) return true;
  }
  return false;
}

Result<Graph> typed(const Graph& graph, const Target& target, Precision precision) {
  // What the file says of its types is taken as it is.
  if (is_typed(graph)) return graph.clone();
  quant::QuantizeOptions options;
  options.default_precision = precision;
  options.wide_products = target.supports_int16_weights;
  return quant::assume_types(graph, options);
}

/// The node of `graph` that the name in an error means; empty when it is none.
std::string node_in(const Graph& graph, const std::string& name) {
  const Value* value = graph.find_value(name);
  return value == nullptr || value->producer == nullptr ? std::string() : value->producer->name();
}

/// Every node that the lowering refuses by itself, so that one round finds them all.
std::map<std::string, std::string> not_expressible(const Graph& graph) {
  std::map<std::string, std::string> refused;
  for (const auto& node : graph.nodes()) {
    if (node->op->lowering.type.empty()) {
      refused[node->name()] = "QNN has no such operator";
    } else if (node->op->lowering.check) {
      const Status status = node->op->lowering.check(NodeTypes(*node).view());
      if (!status) refused[node->name()] = status.error().message;
    }
  }
  return refused;
}

}  // namespace

Graph without(const Graph& graph, const std::set<std::string>& left_out) {
  Graph rest = graph.clone();
  for (const std::string& name : left_out) {
    Node* node = rest.find_value(name)->producer;
    std::vector<std::pair<Value*, std::string>> inputs;
    for (Value* result : node->results) {
      std::string result_name = result->name;
      Value* input = rest.add_input(rest.unique_name(result_name), result->type);
      rest.replace_uses(result, input);
      inputs.emplace_back(input, std::move(result_name));
    }
    rest.erase(node);
    for (auto& [input, result_name] : inputs) rest.rename(input, std::move(result_name));
  }
  return rest;
}

Result<Assumed> assume(const Graph& optimised, const Target& target, Precision precision) {
  std::map<std::string, std::string> refused = not_expressible(optimised);
  for (;;) {
    std::set<std::string> names;
    for (const auto& [name, reason] : refused) names.insert(name);
    const Graph rest = without(optimised, names);
    Result<Graph> graph = typed(rest, target, precision);
    Result<qnn::GraphSpec> spec =
        graph ? lower_to_qnn(*graph) : Result<qnn::GraphSpec>(tl::unexpected<Error>(graph.error()));
    if (spec) return Assumed{std::move(*graph), std::move(*spec), std::move(refused)};
    const std::string node = node_in(rest, spec.error().place.node);
    if (node.empty()) return fail(std::move(spec.error()));
    refused[node] = spec.error().message;
  }
}

}  // namespace htpipe::check
