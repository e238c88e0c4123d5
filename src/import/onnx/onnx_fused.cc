#include "import/onnx/onnx_fused.h"

#include <fmt/core.h>

namespace htpipe::onnx_import {

Result<Value*> fused_activation(Call& call, Value* value, const std::string& activation,
                                const std::vector<float>& parameters) {
  const auto parameter = [&](std::size_t index, float fallback) {
    return index < parameters.size() ? parameters[index] : fallback;
  };
  if (activation.empty()) return value;
  if (activation == "Relu") return call.neuron("relu", value);
  if (activation == "Sigmoid") return call.neuron("sigmoid", value);
  if (activation == "Tanh") return call.neuron("tanh", value);
  if (activation == "Clip") {
    const Attributes attributes = {{"operation", std::string("relu_min_max")},
                                   {"min_value", parameter(0, -3.402823466e38F)},
                                   {"max_value", parameter(1, 3.402823466e38F)}};
    return call.add("ElementWiseNeuron", attributes, {value});
  }
  if (activation == "HardSigmoid") {
    const Attributes attributes = {
        {"operation", std::string("hard_sigmoid")}, {"alpha", parameter(0, 0.2F)}, {"beta", parameter(1, 0.5F)}};
    return call.add("ElementWiseNeuron", attributes, {value});
  }
  if (activation == "LeakyRelu") {
    Value* slope = call.scalar("slope", static_cast<double>(parameter(0, 0.01F)), value->type.dtype);
    return call.add("Prelu", {}, {value, slope});
  }
  return fail(Code::kUnsupportedForm, fmt::format("a fused activation {}", activation));
}

}  // namespace htpipe::onnx_import
