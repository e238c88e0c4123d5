// Activations, which are functions of one value.
#include <cmath>
#include <limits>
#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_integers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// A constant of one element with as many axes as are needed to broadcast to `like`.
Value* scalar_like(Call& call, std::string_view suffix, double value, const Value* like) {
  Shape shape(like->type.shape.empty() ? 0 : 1, 1);
  return call.constant(suffix, filled({like->type.dtype, std::move(shape), std::nullopt}, value));
}

Result<Value*> neuron(Call& call, std::string_view operation, Attributes attributes, Value* input,
                      std::string_view suffix = {}) {
  attributes.set("operation", std::string(operation));
  return call.add("ElementWiseNeuron", std::move(attributes), {input}, suffix);
}

Result<Values> simple(Call& call, std::string_view operation) {
  HTPIPE_TRY(Value * input, call.input(0));
  return one(call.neuron(operation, input));
}

Result<Value*> swish_of(Call& call, Value* input, std::string_view suffix) {
  HTPIPE_TRY(const float alpha, call.real("alpha", 1.0F));
  Value* scaled = input;
  if (alpha != 1.0F) {
    HTPIPE_TRY(scaled, call.binary("multiply", input, static_cast<double>(alpha), "scaled"));
  }
  HTPIPE_TRY(Value * gate, call.neuron("sigmoid", scaled, "gate"));
  return call.binary("multiply", input, gate, suffix);
}

/// A bound of Clip: absent, or a value of one element.
Result<Value*> bound(Call& call, std::size_t index, std::string_view attribute, double absent, const Value* input) {
  if (call.opset() < 11) {
    HTPIPE_TRY(const float value, call.real(attribute, static_cast<float>(absent)));
    return call.scalar(attribute, static_cast<double>(value), input->type.dtype);
  }
  Value* value = call.optional_input(index);
  if (value == nullptr) return value;
  if (value->type.count() != 1) return fail(Code::kOnnxInvalid, "a bound of Clip is not one element");
  return call.reshape(value, {}, attribute);
}

/// Clip with known bounds of a float type: one activation. Null when it is none.
Result<Value*> clip_by_activation(Call& call, Value* input, const Value* low, const Value* high) {
  const double infinity = std::numeric_limits<double>::infinity();
  if ((low != nullptr && !low->is_constant()) || (high != nullptr && !high->is_constant())) return nullptr;
  const double from = low != nullptr ? low->constant.real(0) : -infinity;
  const double to = high != nullptr ? high->constant.real(0) : infinity;
  const auto limit = static_cast<double>(std::numeric_limits<float>::max());
  if (from == 0 && to >= limit) return call.neuron("relu", input);
  if (!(from <= to) || from <= -limit || to >= limit) return nullptr;
  return neuron(call, "relu_min_max", {{"min_value", static_cast<float>(from)}, {"max_value", static_cast<float>(to)}},
                input);
}

}  // namespace

Result<Values> sigmoid(Call& call) { return simple(call, "sigmoid"); }
Result<Values> tanh(Call& call) { return simple(call, "tanh"); }
Result<Values> hard_swish(Call& call) { return simple(call, "hard_swish"); }

Result<Values> relu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  if (is_float(input->type.dtype)) return one(call.neuron("relu", input));
  return one(extremum(call, "maximum", input, call.scalar("zero", 0, input->type.dtype)));
}

Result<Values> leaky_relu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const float alpha, call.real("alpha", 0.01F));
  return one(call.add("Prelu", {}, {input, scalar_like(call, "alpha", static_cast<double>(alpha), input)}));
}

Result<Values> prelu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * slope, call.input(1));
  if (call.opset() < 7 && rank_of(slope) == 1 && rank_of(input) > 2 && slope->type.count() > 1) {
    // Before opset 7 a list of slopes belongs to the channels.
    Shape channels(input->type.shape.size() - 1, 1);
    channels[0] = slope->type.count();
    HTPIPE_TRY(slope, call.reshape(slope, channels, "slope"));
  }
  if (is_float(input->type.dtype)) return one(call.add("Prelu", {}, {input, slope}));
  HTPIPE_TRY(Value * negative, compare(call, "less", input, call.scalar("zero", 0, input->type.dtype), "negative"));
  HTPIPE_TRY(Value * scaled, call.binary("multiply", input, slope, "scaled"));
  return one(select(call, negative, scaled, input));
}

Result<Values> elu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const float alpha, call.real("alpha", 1.0F));
  return one(neuron(call, "elu", {{"alpha", alpha}}, input));
}

Result<Values> selu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const float alpha, call.real("alpha", 1.67326319217681884765625F));
  HTPIPE_TRY(const float gamma, call.real("gamma", 1.05070102214813232421875F));
  HTPIPE_TRY(Value * inner, neuron(call, "elu", {{"alpha", alpha}}, input, "elu"));
  return one(call.binary("multiply", inner, static_cast<double>(gamma)));
}

Result<Values> celu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const float alpha, call.real("alpha", 1.0F));
  if (alpha == 0.0F) return fail(Code::kOnnxInvalid, "Celu with alpha 0");
  if (alpha == 1.0F) return one(neuron(call, "elu", {{"alpha", 1.0F}}, input));
  // alpha (exp(x / alpha) - 1) where x is negative.
  HTPIPE_TRY(Value * scaled, call.binary("multiply", input, 1.0 / static_cast<double>(alpha), "scaled"));
  if (alpha > 0.0F) {
    HTPIPE_TRY(Value * inner, neuron(call, "elu", {{"alpha", 1.0F}}, scaled, "elu"));
    return one(call.binary("multiply", inner, static_cast<double>(alpha)));
  }
  HTPIPE_TRY(Value * power, call.unary("exp", scaled, "exp"));
  HTPIPE_TRY(Value * less, call.binary("subtract", power, 1.0, "less"));
  HTPIPE_TRY(Value * bent, call.binary("multiply", less, static_cast<double>(alpha), "bent"));
  HTPIPE_TRY(Value * low, call.binary("minimum", bent, 0.0, "low"));
  HTPIPE_TRY(Value * high, call.neuron("relu", input, "high"));
  return one(call.binary("add", high, low));
}

Result<Values> thresholded_relu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const float alpha, call.real("alpha", 1.0F));
  HTPIPE_TRY(Value * above, call.binary("greater", input, static_cast<double>(alpha), "above"));
  return one(select(call, above, input, call.scalar("zero", 0, input->type.dtype)));
}

Result<Values> hard_sigmoid(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const float alpha, call.real("alpha", 0.2F));
  HTPIPE_TRY(const float beta, call.real("beta", 0.5F));
  return one(neuron(call, "hard_sigmoid", {{"alpha", alpha}, {"beta", beta}}, input));
}

Result<Values> softplus(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  return one(neuron(call, "softplus", {{"beta", 1.0F}, {"threshold", 20.0F}}, input));
}

Result<Values> softsign(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * size, call.unary("abs", input, "abs"));
  HTPIPE_TRY(Value * sum, call.binary("add", size, 1.0, "sum"));
  return one(call.binary("divide", input, sum));
}

Result<Values> mish(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * soft, neuron(call, "softplus", {{"beta", 1.0F}, {"threshold", 20.0F}}, input, "softplus"));
  HTPIPE_TRY(Value * gate, call.neuron("tanh", soft, "tanh"));
  return one(call.binary("multiply", input, gate));
}

Result<Values> gelu(Call& call) {
  HTPIPE_TRY(const std::string approximate, call.text("approximate", "none"));
  if (approximate != "none" && approximate != "tanh") {
    return fail(Code::kUnsupportedForm, "Gelu with approximate " + approximate);
  }
  return simple(call, approximate == "tanh" ? "gelu_tanh" : "gelu");
}

Result<Values> swish(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  return one(swish_of(call, input, ""));
}

Result<Values> swi_glu(Call& call) {
  HTPIPE_TRY(Value * gate, call.input(0));
  HTPIPE_TRY(Value * input, call.input(1));
  HTPIPE_TRY(Value * opened, swish_of(call, gate, "swish"));
  return one(call.binary("multiply", opened, input));
}

Result<Values> shrink(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const float bias, call.real("bias", 0.0F));
  HTPIPE_TRY(const float limit, call.real("lambd", 0.5F));
  const DType dtype = input->type.dtype;
  if (!is_float(dtype)) return fail(Code::kUnsupportedForm, "Shrink of integers");
  HTPIPE_TRY(Value * below, call.binary("less", input, -static_cast<double>(limit), "below"));
  HTPIPE_TRY(Value * above, call.binary("greater", input, static_cast<double>(limit), "above"));
  HTPIPE_TRY(Value * raised, call.binary("add", input, static_cast<double>(bias), "raised"));
  HTPIPE_TRY(Value * lowered, call.binary("subtract", input, static_cast<double>(bias), "lowered"));
  HTPIPE_TRY(Value * upper, select(call, above, lowered, call.scalar("zero", 0, dtype), "upper"));
  return one(select(call, below, raised, upper));
}

Result<Values> clip(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  const auto limit = static_cast<double>(std::numeric_limits<float>::max());
  HTPIPE_TRY(Value * low, bound(call, 1, "min", -limit, input));
  HTPIPE_TRY(Value * high, bound(call, 2, "max", limit, input));
  if (low == nullptr && high == nullptr) return Values{input};
  if (is_float(input->type.dtype)) {
    HTPIPE_TRY(Value * result, clip_by_activation(call, input, low, high));
    if (result != nullptr) return Values{result};
  }
  Value* result = input;
  if (low != nullptr) {
    HTPIPE_TRY(result, extremum(call, "maximum", result, low, high != nullptr ? "above" : ""));
  }
  if (high != nullptr) {
    HTPIPE_TRY(result, extremum(call, "minimum", result, high));
  }
  return Values{result};
}

}  // namespace htpipe::onnx_import::map
