// Advice about operators that the chip has, but not for nothing.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "check/advice/adviser.h"

namespace htpipe::check {
namespace {

constexpr std::size_t kManyOperands = 8;

double bytes_of(const Adviser& adviser, const Value& value) {
  return static_cast<double>(stored_bytes_of(value, adviser.subject));
}

/// Bytes of a result that is written and read once more than it would have to be.
Gain there_and_back(const Adviser& adviser, const Value& value) {
  return {2 * bytes_of(adviser, value), "bytes read and written"};
}

bool does(const Node& node, std::string_view op, std::string_view operation) {
  return node.is(op) && node.attributes.text("operation") == operation;
}

/// Whether `node` is x * sigmoid(x).
bool is_silu(const Node& node) {
  if (!does(node, "ElementWiseBinary", "multiply")) return false;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const Node* gate = node.operands[i]->producer;
    if (gate != nullptr && does(*gate, "ElementWiseNeuron", "sigmoid") && gate->operands[0] == node.operands[1 - i]) {
      return true;
    }
  }
  return false;
}

bool is_simple_power(const Value& exponent) {
  if (!exponent.is_constant() || exponent.type.dtype != DType::kF32 || exponent.type.count() != 1) return false;
  const float number = exponent.constant.data<float>()[0];
  return number == 2.0F || number == 0.5F || number == 1.0F;
}

bool reduces_channels(const Node& node) {
  if (!node.is("ReduceSum") && !node.is("ReduceMean")) return false;
  const Shape& shape = node.operands[0]->type.shape;
  const auto& axes = node.attributes.integers("axes");
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  // A sum over everything crosses tiles anyway; pools see one pixel's channels.
  return shape.size() == 4 && axes == std::vector<std::int64_t>{last} && shape.back() >= 32;
}

void about_elementwise(Adviser& adviser, const Node& node) {
  const Value& result = *node.result();
  if (is_silu(node)) adviser.add("silu", &node, to_string(result.type), there_and_back(adviser, result));
  if (does(node, "ElementWiseNeuron", "gelu_tanh")) adviser.add("gelu-tanh", &node, to_string(result.type));
  if (does(node, "ElementWiseBinary", "divide") && !node.operands[1]->is_constant()) {
    adviser.add("division", &node, fmt::format("by %{}", node.operands[1]->name));
  }
  if (does(node, "ElementWiseBinary", "power") && !is_simple_power(*node.operands[1])) {
    adviser.add("power", &node, fmt::format("exponent %{}", node.operands[1]->name));
  }
}

void about_norm(Adviser& adviser, const Node& node) {
  const Value& result = *node.result();
  if (node.is("Batchnorm")) {
    adviser.add("batchnorm-alone", &node, to_string(result.type), there_and_back(adviser, result));
  }
  if (node.is("GroupNorm") || node.is("InstanceNorm")) {
    adviser.add("group-norm", &node, to_string(result.type), there_and_back(adviser, result));
  }
  if (node.is("Prelu")) adviser.add("prelu", &node, to_string(result.type), there_and_back(adviser, result));
}

void about_movement(Adviser& adviser, const Node& node) {
  const Value& result = *node.result();
  if (node.is("Pad")) adviser.add("pad-between", &node, to_string(result.type), there_and_back(adviser, result));
  if (node.is("Concat") && node.operands.size() > kManyOperands) {
    adviser.add("concat-many", &node, fmt::format("{} operands", node.operands.size()),
                there_and_back(adviser, result));
  }
  const bool gathers = node.is("Gather") || node.is("GatherNd") || node.is("GatherElements");
  if (gathers && !node.operands[0]->is_constant() && !node.operands[1]->is_constant()) {
    adviser.add("gather-computed", &node, fmt::format("indices %{}", node.operands[1]->name),
                there_and_back(adviser, result));
  }
  if (node.is("TopK")) adviser.add("topk", &node, to_string(node.operands[0]->type));
  if (node.is("Resize") && node.attributes.text("interpolation_mode") == "cubic") {
    adviser.add("resize-cubic", &node, to_string(result.type),
                Gain{12 * static_cast<double>(result.type.count()), "elements read"});
  }
  if (reduces_channels(node)) {
    adviser.add("reduce-channels", &node, fmt::format("{} channels", node.operands[0]->type.shape.back()));
  }
}

}  // namespace

void advise_operators(Adviser& adviser) {
  const Node* first = nullptr;
  std::size_t transposes = 0;
  double moved = 0;
  for (const auto& node : adviser.subject.optimised.nodes()) {
    about_elementwise(adviser, *node);
    about_norm(adviser, *node);
    about_movement(adviser, *node);
    if (!node->is("Transpose")) continue;
    if (first == nullptr) first = node.get();
    ++transposes;
    moved += there_and_back(adviser, *node->result()).amount;
  }
  if (first != nullptr) {
    adviser.add("transposes", first, fmt::format("{}", transposes), Gain{moved, "bytes read and written"});
  }
}

}  // namespace htpipe::check
