// Turns a stand-alone relu or relu6 into the attribute `activation` of the node in front of it.
// Invariant: only when nothing else sees the result of the producer, which must be able to carry the activation.
#include <fmt/core.h>

#include <limits>
#include <string>
#include <string_view>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace htpipe::passes {
namespace {

/// Spelling of the attribute; empty when the node is no activation that a producer can carry.
std::string_view fusible(const Node& node) {
  if (!node.is("ElementWiseNeuron")) return {};
  const std::string& operation = node.attributes.text("operation");
  if (operation == "relu") return "relu";
  if (operation != "relu_min_max" || node.attributes.real("min_value") != 0.0F) return {};
  const float high = node.attributes.real("max_value");
  if (high == 6.0F) return "relu6";
  return high == std::numeric_limits<float>::infinity() ? "relu" : "";
}

Result<PassReport> run(Graph& graph) {
  PassReport report;
  for (Node* node : node_list(graph)) {
    const std::string_view activation = fusible(*node);
    if (activation.empty() || !is_plain_float(*node)) continue;
    Node* producer = single_use_producer(graph, node->operands[0]);
    if (producer == nullptr || !is_plain_float(*producer)) continue;
    const Attribute* carried = producer->attributes.find("activation");
    if (carried == nullptr || std::get<std::string>(*carried) != "none") continue;
    report.add(fmt::format("{} fused into {} as {}; %{} is now %{}", describe(*node), describe(*producer), activation,
                           producer->name(), node->name()));
    producer->attributes.set("activation", std::string(activation));
    absorb(graph, *producer, node);
  }
  return report;
}

}  // namespace

const Pass& fuse_activation() {
  static const Pass pass = {"fuse_activation",
                            "Makes a relu or relu6 part of the convolution, linear or elementwise node in front of it.",
                            run};
  return pass;
}

}  // namespace htpipe::passes
