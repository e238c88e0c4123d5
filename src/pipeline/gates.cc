#include "pipeline/gates.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace htpipe {
namespace {

/// The node or input whose precision decides that of `value`: copying operators follow their input.
const Value* deciding_value(const Value* value) {
  while (value->producer != nullptr && value->producer->op->result_encoding == ResultEncoding::kSameAsInput) {
    value = value->producer->operands.front();
  }
  return value;
}

}  // namespace

std::optional<Precision> highest_precision(const Target& target) {
  if (target.supports_fp16) return Precision::kFp16;
  if (target.supports_int16_activations) return Precision::kInt16;
  return std::nullopt;
}

std::vector<Raise> raise_precision(const Graph& graph, const std::vector<std::string>& failing,
                                   const quant::QuantizeOptions& current, Precision top) {
  const auto at_top = [&](const std::string& name) {
    const auto at = current.precisions.find(name);
    return (at == current.precisions.end() ? current.default_precision : at->second) == top;
  };
  std::vector<Raise> raises;
  std::set<std::string> taken;
  for (const std::string& name : failing) {
    // Breadth first towards the inputs: the nearest values that can still be raised.
    std::vector<const Value*> front;
    if (const Value* value = graph.find_value(name)) front.push_back(value);
    std::set<const Value*> seen(front.begin(), front.end());
    bool found = false;
    while (!front.empty() && !found) {
      std::vector<const Value*> next;
      for (const Value* value : front) {
        const Value* decides = deciding_value(value);
        if (!at_top(decides->name)) {
          found = true;
          if (taken.insert(decides->name).second) raises.push_back({decides->name, name, top});
          continue;
        }
        if (decides->producer == nullptr) continue;
        for (const Value* operand : decides->producer->operands) {
          if (operand != nullptr && !operand->is_constant() && seen.insert(operand).second) next.push_back(operand);
        }
      }
      front = std::move(next);
    }
  }
  return raises;
}

double judged_cosine(const Json& layer) {
  const Json& judged = layer.at("emulator").is_null() ? layer.at("engine") : layer.at("emulator");
  return judged.at("cosine").get<double>();
}

std::vector<std::string> failing_values(const Json& layers, double gate) {
  std::vector<std::string> failing;
  for (const Json& layer : layers) {
    if (!(judged_cosine(layer) >= gate)) failing.push_back(layer.at("value").get<std::string>());
  }
  return failing;
}

}  // namespace htpipe
