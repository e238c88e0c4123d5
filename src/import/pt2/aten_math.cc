// Arithmetic, comparisons and functions of one number: operators that work element by element.
#include <cmath>
#include <limits>

#include "import/pt2/mappers.h"

namespace htpipe::pt2 {
namespace {

constexpr double kLog2E = 1.44269504088896340736;
constexpr double kLog10E = 0.43429448190325182765;
constexpr double kLn2 = 0.69314718055994530942;

/// Both operands in the type in which PyTorch computes: that of the result.
Result<std::pair<Value*, Value*>> operands(Call& call, const char* a_name, const char* b_name, DType dtype) {
  HTPIPE_TRY(Value * a, call.tensor_or_number(a_name));
  HTPIPE_TRY(Value * b, call.tensor_or_number(b_name));
  HTPIPE_TRY(a, call.cast(a, dtype, "a"));
  HTPIPE_TRY(b, call.cast(b, dtype, "b"));
  return std::pair{a, b};
}

/// `b` times alpha, where there is one.
One scaled(Call& call, Value* b, DType dtype) {
  HTPIPE_TRY(const double alpha, call.real("alpha", 1.0));
  if (alpha == 1.0) return b;
  HTPIPE_TRY(Value * factor, call.scalar(alpha, dtype, "alpha"));
  return call.binary("multiply", b, factor, "scaled");
}

/// a - floor(a / b) * b and the like keep the sign rules of their names in the graph's operator.
One float_or_integer(Call& call, std::string_view operation) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(const auto pair, operands(call, "self", "other", dtype));
  return call.binary(operation, pair.first, pair.second);
}

}  // namespace

One binary(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(const auto pair, operands(call, "self", "other", dtype));
  HTPIPE_TRY(Value * b, scaled(call, pair.second, dtype));
  // Truth values are numbers 0 and 1 to PyTorch: their sum is "or", their product "and".
  if (dtype == DType::kBool) {
    const std::string_view name = call.argument();
    if (name == "add" || name == "maximum") return call.binary("or", pair.first, b);
    if (name == "multiply" || name == "minimum") return call.binary("and", pair.first, b);
  }
  return call.binary(call.argument(), pair.first, b);
}

One reverse_subtract(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(const auto pair, operands(call, "self", "other", dtype));
  HTPIPE_TRY(Value * a, scaled(call, pair.first, dtype));
  return call.binary("subtract", pair.second, a);
}

One divide(Call& call) {
  HTPIPE_TRY(const std::string mode, call.text("rounding_mode", call.argument()));
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(const auto pair, operands(call, "self", "other", dtype));
  if (mode == "floor") return call.binary("floor_div", pair.first, pair.second);
  if (mode == "trunc" && is_float(dtype)) {
    HTPIPE_TRY(Value * quotient, call.binary("divide", pair.first, pair.second, "quotient"));
    return call.unary("trunc", quotient);
  }
  if (!mode.empty() && mode != "trunc") return fail(Code::kUnsupportedForm, "rounding_mode " + mode);
  return call.binary("divide", pair.first, pair.second);
}

One remainder(Call& call) { return float_or_integer(call, "mod"); }
One fmod(Call& call) { return float_or_integer(call, "fmod"); }

One power(Call& call) {
  const char* exponent_name = call.node().input("exponent") != nullptr ? "exponent" : "other";
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  if (call.is_tensor("self") && !call.is_tensor(exponent_name)) {
    HTPIPE_TRY(const double exponent, call.real(exponent_name));
    HTPIPE_TRY(Value * base, call.tensor("self"));
    HTPIPE_TRY(base, call.cast(base, dtype, "base"));
    if (exponent == 1.0) return base;
    if (exponent == 2.0) return call.binary("multiply", base, base);
    if (is_float(dtype)) {
      if (exponent == 0.5) return call.unary("sqrt", base);
      if (exponent == -0.5) return call.unary("rsqrt", base);
      if (exponent == -1.0) return call.unary("reciprocal", base);
      if (exponent == 3.0) {
        HTPIPE_TRY(Value * square, call.binary("multiply", base, base, "square"));
        return call.binary("multiply", square, base);
      }
    }
  }
  HTPIPE_TRY(const auto pair, operands(call, "self", exponent_name, dtype));
  return call.binary("power", pair.first, pair.second);
}

One compare(Call& call) {
  HTPIPE_TRY(Value * a, call.tensor_or_number("self"));
  HTPIPE_TRY(Value * b, call.tensor_or_number("other"));
  DType dtype = promote(a->type.dtype, b->type.dtype);
  if (dtype == DType::kBool) dtype = DType::kI32;
  HTPIPE_TRY(a, call.cast(a, dtype, "a"));
  HTPIPE_TRY(b, call.cast(b, dtype, "b"));
  return call.binary(call.argument(), a, b);
}

One bitwise(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(const auto pair, operands(call, "self", "other", dtype));
  const std::string name(call.argument());
  if (dtype == DType::kBool && !name.starts_with("shift")) return call.binary(name, pair.first, pair.second);
  return call.binary(name.starts_with("shift") ? name : "bit_" + name, pair.first, pair.second);
}

One bitwise_not(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  return call.unary(input->type.dtype == DType::kBool ? "not" : "bit_not", input);
}

One logical(Call& call) {
  HTPIPE_TRY(const auto pair, operands(call, "self", "other", DType::kBool));
  return call.binary(call.argument(), pair.first, pair.second);
}

One logical_not(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(input, call.cast(input, DType::kBool, "truth"));
  return call.unary("not", input);
}

One unary(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(input, call.cast(input, dtype, "input"));
  // Rounding leaves integers as they are.
  const std::string_view name = call.argument();
  if (!is_float(dtype) && (name == "floor" || name == "ceil" || name == "round" || name == "trunc")) return input;
  return call.unary(name, input);
}

One round(Call& call) {
  HTPIPE_TRY(const std::int64_t decimals, call.integer("decimals", 0));
  if (decimals == 0) return unary(call);
  HTPIPE_TRY(Value * input, call.tensor("self"));
  if (!is_float(input->type.dtype)) return fail(Code::kUnsupportedForm, "round of integers to decimals");
  HTPIPE_TRY(Value * ten, call.scalar(std::pow(10.0, static_cast<double>(decimals)), DType::kF32, "ten"));
  HTPIPE_TRY(Value * scaled, call.binary("multiply", input, ten, "scaled"));
  HTPIPE_TRY(Value * rounded, call.unary("round", scaled, "rounded"));
  return call.binary("divide", rounded, ten);
}

/// log2(x) = log(x) / log(2) and the like: a function times a number.
One log_of_base(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(input, call.cast(input, DType::kF32, "input"));
  HTPIPE_TRY(Value * log, call.unary("log", input, "log"));
  HTPIPE_TRY(Value * factor, call.scalar(call.argument() == "2" ? kLog2E : kLog10E, DType::kF32, "factor"));
  return call.binary("multiply", log, factor);
}

/// exp2, expm1, log1p, erfc, square, frac, deg2rad, softsign: small formulas.
One formula(Call& call) {
  const std::string_view name = call.argument();
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(Value * x, call.tensor("self"));
  HTPIPE_TRY(x, call.cast(x, dtype, "input"));
  if (name == "square") return call.binary("multiply", x, x);
  if (name == "frac") {
    HTPIPE_TRY(Value * whole, call.unary("trunc", x, "whole"));
    return call.binary("subtract", x, whole);
  }
  HTPIPE_TRY(Value * one, call.scalar(1.0, dtype, "one"));
  if (name == "exp2") {
    HTPIPE_TRY(Value * factor, call.scalar(kLn2, dtype, "ln2"));
    HTPIPE_TRY(Value * scaled, call.binary("multiply", x, factor, "scaled"));
    return call.unary("exp", scaled);
  }
  if (name == "log1p") {
    HTPIPE_TRY(Value * sum, call.binary("add", x, one, "sum"));
    return call.unary("log", sum);
  }
  if (name == "expm1") {
    // tanh(x/2) * (exp(x) + 1): no difference of nearly equal numbers for small x.
    HTPIPE_TRY(Value * half, call.scalar(0.5, dtype, "half"));
    HTPIPE_TRY(Value * halved, call.binary("multiply", x, half, "halved"));
    HTPIPE_TRY(Value * tanh, call.neuron("tanh", halved, "tanh"));
    HTPIPE_TRY(Value * exp, call.unary("exp", x, "exp"));
    HTPIPE_TRY(Value * sum, call.binary("add", exp, one, "sum"));
    return call.binary("multiply", tanh, sum);
  }
  if (name == "erfc") {
    HTPIPE_TRY(Value * erf, call.unary("erf", x, "erf"));
    return call.binary("subtract", one, erf);
  }
  if (name == "softsign") {
    HTPIPE_TRY(Value * size, call.unary("abs", x, "abs"));
    HTPIPE_TRY(Value * sum, call.binary("add", size, one, "sum"));
    return call.binary("divide", x, sum);
  }
  const double degree = 3.14159265358979323846 / 180.0;
  HTPIPE_TRY(Value * factor, call.scalar(name == "deg2rad" ? degree : 1.0 / degree, dtype, "factor"));
  return call.binary("multiply", x, factor);
}

One is_special(Call& call) {
  const std::string_view name = call.argument();
  HTPIPE_TRY(Value * input, call.tensor("self"));
  if (!is_float(input->type.dtype)) {
    return call.integers_constant("truth", input->type.shape,
                                  IntList(static_cast<std::size_t>(input->type.count()), name == "finite" ? 1 : 0),
                                  DType::kBool);
  }
  if (name == "nan") return call.add("IsNan", {}, {input});
  if (name == "finite") {
    // x - x is 0 for a finite number and NaN for all others.
    HTPIPE_TRY(Value * difference, call.binary("subtract", input, input, "difference"));
    HTPIPE_TRY(Value * zero, call.scalar(0.0, DType::kF32, "zero"));
    return call.binary("equal", difference, zero);
  }
  return call.add("IsInf", {{"detect_negative", name != "positive"}, {"detect_positive", name != "negative"}}, {input});
}

One nan_to_num(Call& call) {
  HTPIPE_TRY(Value * x, call.tensor("self"));
  if (!is_float(x->type.dtype)) return x;
  const TensorMeta* meta = call.declared();
  const double largest =
      meta != nullptr && meta->dtype == DType::kF16 ? 65504.0 : static_cast<double>(std::numeric_limits<float>::max());
  HTPIPE_TRY(const double nan, call.real("nan", 0.0));
  HTPIPE_TRY(const double high, call.real("posinf", largest));
  HTPIPE_TRY(const double low, call.real("neginf", -largest));
  HTPIPE_TRY(Value * for_nan, call.scalar(nan, DType::kF32, "for_nan"));
  HTPIPE_TRY(Value * for_high, call.scalar(high, DType::kF32, "for_high"));
  HTPIPE_TRY(Value * for_low, call.scalar(low, DType::kF32, "for_low"));
  HTPIPE_TRY(Value * is_nan, call.add("IsNan", {}, {x}, "is_nan"));
  HTPIPE_TRY(Value * is_high,
             call.add("IsInf", {{"detect_negative", false}, {"detect_positive", true}}, {x}, "is_high"));
  HTPIPE_TRY(Value * is_low, call.add("IsInf", {{"detect_negative", true}, {"detect_positive", false}}, {x}, "is_low"));
  HTPIPE_TRY(x, call.select(is_nan, for_nan, x, "without_nan"));
  HTPIPE_TRY(x, call.select(is_high, for_high, x, "without_high"));
  return call.select(is_low, for_low, x);
}

/// maximum and minimum that prefer a number to a NaN.
One nan_extremum(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(const auto pair, operands(call, "self", "other", dtype));
  HTPIPE_TRY(Value * extremum, call.binary(call.argument(), pair.first, pair.second, "extremum"));
  if (!is_float(dtype)) return extremum;
  HTPIPE_TRY(Value * a_nan, call.add("IsNan", {}, {pair.first}, "a_nan"));
  HTPIPE_TRY(Value * b_nan, call.add("IsNan", {}, {pair.second}, "b_nan"));
  HTPIPE_TRY(Value * without, call.select(b_nan, pair.first, extremum, "without_b"));
  return call.select(a_nan, pair.second, without);
}

/// self + value * tensor1 (* or /) tensor2.
One add_combined(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(const auto pair, operands(call, "tensor1", "tensor2", dtype));
  HTPIPE_TRY(Value * self, call.tensor("self"));
  HTPIPE_TRY(self, call.cast(self, dtype, "self"));
  HTPIPE_TRY(Value * combined, call.binary(call.argument(), pair.first, pair.second, "combined"));
  HTPIPE_TRY(const double value, call.real("value", 1.0));
  if (value != 1.0) {
    HTPIPE_TRY(Value * factor, call.scalar(value, dtype, "value"));
    HTPIPE_TRY(combined, call.binary("multiply", combined, factor, "scaled"));
  }
  return call.binary("add", self, combined);
}

/// start + weight * (end - start).
One lerp(Call& call) {
  HTPIPE_TRY(const auto pair, operands(call, "self", "end", DType::kF32));
  HTPIPE_TRY(Value * weight, call.tensor_or_number("weight"));
  HTPIPE_TRY(weight, call.cast(weight, DType::kF32, "weight"));
  HTPIPE_TRY(Value * way, call.binary("subtract", pair.second, pair.first, "way"));
  HTPIPE_TRY(Value * part, call.binary("multiply", way, weight, "part"));
  return call.binary("add", pair.first, part);
}

One logaddexp(Call& call) {
  HTPIPE_TRY(const auto pair, operands(call, "self", "other", DType::kF32));
  HTPIPE_TRY(Value * high, call.binary("maximum", pair.first, pair.second, "high"));
  HTPIPE_TRY(Value * difference, call.binary("subtract", pair.first, pair.second, "difference"));
  HTPIPE_TRY(Value * size, call.unary("abs", difference, "size"));
  HTPIPE_TRY(Value * negative, call.unary("neg", size, "negative"));
  HTPIPE_TRY(Value * exp, call.unary("exp", negative, "exp"));
  HTPIPE_TRY(Value * one, call.scalar(1.0, DType::kF32, "one"));
  HTPIPE_TRY(Value * sum, call.binary("add", exp, one, "sum"));
  HTPIPE_TRY(Value * log, call.unary("log", sum, "log"));
  return call.binary("add", high, log);
}

One hypot(Call& call) {
  HTPIPE_TRY(const auto pair, operands(call, "self", "other", DType::kF32));
  HTPIPE_TRY(Value * a, call.binary("multiply", pair.first, pair.first, "a_square"));
  HTPIPE_TRY(Value * b, call.binary("multiply", pair.second, pair.second, "b_square"));
  HTPIPE_TRY(Value * sum, call.binary("add", a, b, "sum"));
  return call.unary("sqrt", sum);
}

}  // namespace htpipe::pt2
