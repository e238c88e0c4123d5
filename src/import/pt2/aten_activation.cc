// Activation functions.
#include <cmath>
#include <limits>

#include "import/pt2/mappers.h"

namespace htpipe::pt2 {
namespace {

One float_input(Call& call, const char* name = "self") {
  HTPIPE_TRY(Value * input, call.tensor(name));
  return call.cast(input, DType::kF32, "input");
}

One softplus_of(Call& call, Value* x, double beta, double threshold, std::string_view suffix) {
  return call.add("ElementWiseNeuron",
                  {{"operation", std::string("softplus")},
                   {"beta", static_cast<float>(beta)},
                   {"threshold", static_cast<float>(threshold)}},
                  {x}, suffix);
}

One elu_of(Call& call, Value* x, double alpha, std::string_view suffix) {
  return call.add("ElementWiseNeuron", {{"operation", std::string("elu")}, {"alpha", static_cast<float>(alpha)}}, {x},
                  suffix);
}

One times(Call& call, Value* x, double factor, std::string_view suffix) {
  HTPIPE_TRY(Value * number, call.scalar(factor, DType::kF32, "factor"));
  return call.binary("multiply", x, number, suffix);
}

One bound(Call& call, Value* x, const char* name, const char* operation, DType dtype, std::string_view suffix) {
  if (!call.has(name)) return x;
  HTPIPE_TRY(Value * limit, call.tensor_or_number(name));
  HTPIPE_TRY(limit, call.cast(limit, dtype, name));
  return call.binary(operation, x, limit, suffix);
}

}  // namespace

One neuron(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(input, call.cast(input, dtype, "input"));
  if (!is_float(dtype)) {
    if (call.argument() != "relu") return fail(Code::kUnsupportedForm, "an activation of integers");
    HTPIPE_TRY(Value * zero, call.scalar(0.0, dtype, "zero"));
    return call.binary("maximum", input, zero);
  }
  return call.neuron(call.argument(), input);
}

/// clamp, hardtanh, relu6: a lower and an upper bound, each a number, a tensor or missing.
One clamp(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(input, call.cast(input, dtype, "input"));
  const bool hardtanh = call.argument() == "hardtanh";
  const bool relu6 = call.argument() == "relu6";
  const char* low_name = hardtanh ? "min_val" : "min";
  const char* high_name = hardtanh ? "max_val" : "max";
  const bool numbers = !call.is_tensor(low_name) && !call.is_tensor(high_name);
  const bool both = hardtanh || relu6 || (call.has(low_name) && call.has(high_name));
  if (is_float(dtype) && numbers && both) {
    HTPIPE_TRY(const double low, call.real(low_name, relu6 ? 0.0 : -1.0));
    HTPIPE_TRY(const double high, call.real(high_name, relu6 ? 6.0 : 1.0));
    // PyTorch lets the upper bound win where they cross.
    return call.add("ElementWiseNeuron",
                    {{"operation", std::string("relu_min_max")},
                     {"min_value", static_cast<float>(std::min(low, high))},
                     {"max_value", static_cast<float>(high)}},
                    {input});
  }
  const bool last = !call.has(high_name);
  HTPIPE_TRY(input, bound(call, input, low_name, "maximum", dtype, last ? "" : "low"));
  return bound(call, input, high_name, "minimum", dtype, "");
}

One gelu(Call& call) {
  HTPIPE_TRY(const std::string form, call.text("approximate", "none"));
  HTPIPE_TRY(Value * input, float_input(call));
  if (form != "none" && form != "tanh") return fail(Code::kUnsupportedForm, "gelu of the form " + form);
  return call.neuron(form == "tanh" ? "gelu_tanh" : "gelu", input);
}

One silu(Call& call) {
  HTPIPE_TRY(Value * input, float_input(call));
  HTPIPE_TRY(Value * gate, call.neuron("sigmoid", input, "sigmoid"));
  return call.binary("multiply", input, gate);
}

One mish(Call& call) {
  HTPIPE_TRY(Value * input, float_input(call));
  HTPIPE_TRY(Value * soft, softplus_of(call, input, 1.0, 20.0, "softplus"));
  HTPIPE_TRY(Value * gate, call.neuron("tanh", soft, "tanh"));
  return call.binary("multiply", input, gate);
}

One softplus(Call& call) {
  HTPIPE_TRY(Value * input, float_input(call));
  HTPIPE_TRY(const double beta, call.real("beta", 1.0));
  HTPIPE_TRY(const double threshold, call.real("threshold", 20.0));
  return softplus_of(call, input, beta, threshold, "");
}

/// log(sigmoid(x)) = min(x, 0) - log(1 + exp(-|x|)), which does not overflow.
One log_sigmoid(Call& call) {
  HTPIPE_TRY(Value * input, float_input(call));
  HTPIPE_TRY(Value * negative, call.unary("neg", input, "negative"));
  HTPIPE_TRY(Value * soft, softplus_of(call, negative, 1.0, 40.0, "softplus"));
  return call.unary("neg", soft);
}

Many log_sigmoid_many(Call& call) {
  HTPIPE_TRY(Value * result, log_sigmoid(call));
  return Values{result};
}

/// scale * (x > 0 ? x : alpha * (exp(x * input_scale) - 1)); selu and celu have their own numbers.
One elu(Call& call) {
  const std::string_view name = call.argument();
  HTPIPE_TRY(Value * input, float_input(call));
  if (name == "selu") {
    HTPIPE_TRY(Value * curve, elu_of(call, input, 1.6732632423543772848, "elu"));
    return times(call, curve, 1.0507009873554804934, "");
  }
  HTPIPE_TRY(const double alpha, call.real("alpha", 1.0));
  if (name == "celu") {
    // max(0, x) + min(0, alpha * (exp(x / alpha) - 1)) = alpha * elu(x / alpha).
    if (alpha == 1.0) return elu_of(call, input, 1.0, "");
    HTPIPE_TRY(Value * scaled, times(call, input, 1.0 / alpha, "scaled"));
    HTPIPE_TRY(Value * curve, elu_of(call, scaled, 1.0, "elu"));
    return times(call, curve, alpha, "");
  }
  HTPIPE_TRY(const double scale, call.real("scale", 1.0));
  HTPIPE_TRY(const double input_scale, call.real("input_scale", 1.0));
  if (input_scale != 1.0) return fail(Code::kUnsupportedForm, "elu with an input_scale");
  if (scale == 1.0) return elu_of(call, input, alpha, "");
  HTPIPE_TRY(Value * curve, elu_of(call, input, alpha, "elu"));
  return times(call, curve, scale, "");
}

One leaky_relu(Call& call) {
  HTPIPE_TRY(Value * input, float_input(call));
  double slope = 0.01;
  if (call.argument() == "rrelu") {
    HTPIPE_TRY(const bool training, call.flag("training", false));
    if (training) return fail(Code::kUnsupportedForm, "rrelu in training mode: call model.eval() before the export");
    HTPIPE_TRY(const double low, call.real("lower", 0.125));
    HTPIPE_TRY(const double high, call.real("upper", 1.0 / 3.0));
    slope = (low + high) / 2;
  } else {
    HTPIPE_TRY(slope, call.real("negative_slope", 0.01));
  }
  HTPIPE_TRY(Value * slopes, call.constant("slope", {1}, {static_cast<float>(slope)}));
  return call.add("Prelu", {}, {input, slopes});
}

Many leaky_relu_many(Call& call) {
  HTPIPE_TRY(Value * result, leaky_relu(call));
  return Values{result};
}

/// One slope, or one per channel (axis 1).
One prelu(Call& call) {
  HTPIPE_TRY(Value * input, float_input(call));
  HTPIPE_TRY(Value * slopes, call.tensor("weight"));
  const Shape& shape = input->type.shape;
  if (slopes->type.count() > 1 && shape.size() >= 2) {
    Shape wide(shape.size() - 1, 1);
    wide[0] = slopes->type.count();
    HTPIPE_TRY(slopes, call.reshape(slopes, wide, "slopes"));
  }
  return call.add("Prelu", {}, {input, slopes});
}

/// A half of the channels times the sigmoid of the other half.
One glu(Call& call) {
  HTPIPE_TRY(Value * input, float_input(call));
  const Shape& shape = input->type.shape;
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape.size(), -1));
  if (shape.empty() || shape[static_cast<std::size_t>(axis)] % 2 != 0) {
    return fail(Code::kUnsupportedForm, "glu of an odd number of channels");
  }
  const std::int64_t half = shape[static_cast<std::size_t>(axis)] / 2;
  HTPIPE_TRY(const Values parts,
             call.add_many("Split", {{"axis", axis}, {"split_index", IntList{half}}}, {input}, "half"));
  HTPIPE_TRY(Value * gate, call.neuron("sigmoid", parts[1], "gate"));
  return call.binary("multiply", parts[0], gate);
}

/// hardshrink, softshrink, threshold, tanhshrink, logit.
One shrink(Call& call) {
  const std::string_view name = call.argument();
  HTPIPE_TRY(Value * x, float_input(call));
  if (name == "tanhshrink") {
    HTPIPE_TRY(Value * tanh, call.neuron("tanh", x, "tanh"));
    return call.binary("subtract", x, tanh);
  }
  if (name == "logit") {
    if (call.has("eps")) {
      HTPIPE_TRY(const double eps, call.real("eps"));
      HTPIPE_TRY(x, call.add("ElementWiseNeuron",
                             {{"operation", std::string("relu_min_max")},
                              {"min_value", static_cast<float>(eps)},
                              {"max_value", static_cast<float>(1.0 - eps)}},
                             {x}, "clamped"));
    }
    HTPIPE_TRY(Value * one, call.scalar(1.0, DType::kF32, "one"));
    HTPIPE_TRY(Value * rest, call.binary("subtract", one, x, "rest"));
    HTPIPE_TRY(Value * odds, call.binary("divide", x, rest, "odds"));
    return call.unary("log", odds);
  }
  if (name == "threshold") {
    HTPIPE_TRY(const double threshold, call.real("threshold"));
    HTPIPE_TRY(const double value, call.real("value"));
    HTPIPE_TRY(Value * limit, call.scalar(threshold, DType::kF32, "threshold"));
    HTPIPE_TRY(Value * other, call.scalar(value, DType::kF32, "value"));
    HTPIPE_TRY(Value * above, call.binary("greater", x, limit, "above"));
    return call.select(above, x, other);
  }
  HTPIPE_TRY(const double lambda, call.real("lambd", 0.5));
  if (name == "softshrink") {
    // x minus its part within [-lambda, lambda].
    HTPIPE_TRY(Value * inner, call.add("ElementWiseNeuron",
                                       {{"operation", std::string("relu_min_max")},
                                        {"min_value", static_cast<float>(-lambda)},
                                        {"max_value", static_cast<float>(lambda)}},
                                       {x}, "inner"));
    return call.binary("subtract", x, inner);
  }
  HTPIPE_TRY(Value * size, call.unary("abs", x, "abs"));
  HTPIPE_TRY(Value * limit, call.scalar(lambda, DType::kF32, "lambda"));
  HTPIPE_TRY(Value * zero, call.scalar(0.0, DType::kF32, "zero"));
  HTPIPE_TRY(Value * outside, call.binary("greater", size, limit, "outside"));
  return call.select(outside, x, zero);
}

}  // namespace htpipe::pt2
