// Elementwise arithmetic.
#include <cmath>
#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_integers.h"
#include "import/onnx/onnx_map.h"
#include "import/onnx/onnx_operands.h"

namespace htpipe::onnx_import::map {
namespace {

Result<Values> binary(Call& call, std::string_view operation) {
  HTPIPE_TRY(const Operands in, two_operands(call));
  return one(call.binary(operation, in.a, in.b));
}

Result<Values> unary(Call& call, std::string_view operation) {
  HTPIPE_TRY(Value * input, call.input(0));
  return one(call.unary(operation, input));
}

bool is_unsigned(DType dtype) { return is_integer(dtype) && name_of(dtype).front() == 'u'; }

using Pair = Result<Value*> (*)(Builder&, std::string_view, Value*, Value*, std::string_view);

Result<Value*> plain_pair(Builder& builder, std::string_view operation, Value* a, Value* b, std::string_view suffix) {
  return builder.binary(operation, a, b, suffix);
}

/// An operation over all inputs, from the left.
Result<Value*> over_all(Call& call, std::string_view operation, Pair pair, bool is_last) {
  HTPIPE_TRY(Value * result, call.input(0));
  for (std::size_t i = 1; i < call.input_count(); ++i) {
    HTPIPE_TRY(Value * next, call.input(i));
    const bool named = is_last && i + 1 == call.input_count();
    HTPIPE_TRY(result, pair(call, operation, result, next, named ? "" : std::to_string(i)));
  }
  return result;
}

/// Whether a constant holds whole numbers that are not negative.
bool is_whole(const Value* value) {
  if (!value->is_constant()) return false;
  for (std::int64_t i = 0; i < value->constant.count(); ++i) {
    const double x = value->constant.real(i);
    if (!(x >= 0) || x > 64 || x != std::floor(x)) return false;
  }
  return true;
}

}  // namespace

Result<Values> add(Call& call) { return binary(call, "add"); }
Result<Values> sub(Call& call) { return binary(call, "subtract"); }
Result<Values> mul(Call& call) { return binary(call, "multiply"); }

Result<Values> div(Call& call) {
  HTPIPE_TRY(const Operands in, two_operands(call));
  return one(quotient(call, "divide", in.a, in.b));
}

Result<Values> mod(Call& call) {
  HTPIPE_TRY(const Operands in, two_operands(call));
  HTPIPE_TRY(const std::int64_t fmod, call.integer("fmod", 0));
  return one(quotient(call, fmod != 0 ? "fmod" : "mod", in.a, in.b));
}

Result<Values> pow(Call& call) {
  HTPIPE_TRY(const Operands in, two_operands(call));
  Value* base = in.a;
  Value* exponent = in.b;
  const DType dtype = base->type.dtype;
  if (exponent->type.dtype == dtype && dtype != DType::kU64) return one(call.binary("power", base, exponent));
  const bool computed_as_is = is_float(dtype) || (is_integer(exponent->type.dtype) && !is_unsigned(dtype)) ||
                              (is_whole(exponent) && dtype != DType::kU64);
  if (computed_as_is) {
    HTPIPE_TRY(exponent, call.cast(exponent, dtype, "exponent"));
    return one(call.binary("power", base, exponent));
  }
  // Whole numbers to the power of real ones: the real result is cut.
  HTPIPE_TRY(base, call.cast(base, DType::kF32, "base"));
  HTPIPE_TRY(exponent, call.cast(exponent, DType::kF32, "exponent"));
  HTPIPE_TRY(Value * result, call.binary("power", base, exponent, "real"));
  call.warn("a power of integers is computed in float32");
  return one(call.cast(result, dtype));
}

Result<Values> max(Call& call) { return one(over_all(call, "maximum", extremum, true)); }
Result<Values> min(Call& call) { return one(over_all(call, "minimum", extremum, true)); }
Result<Values> sum(Call& call) { return one(over_all(call, "add", plain_pair, true)); }

Result<Values> mean(Call& call) {
  HTPIPE_TRY(Value * sum, over_all(call, "add", plain_pair, false));
  if (call.input_count() == 1) return Values{sum};
  return one(call.binary("multiply", sum, 1.0 / static_cast<double>(call.input_count())));
}

Result<Values> abs(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  if (is_unsigned(input->type.dtype)) return Values{input};
  return one(call.unary("abs", input));
}

Result<Values> sign(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  if (is_unsigned(input->type.dtype)) {
    return one(extremum(call, "minimum", input, call.scalar("one", 1, input->type.dtype)));
  }
  return one(call.unary("sign", input));
}

Result<Values> acos(Call& call) { return unary(call, "acos"); }
Result<Values> acosh(Call& call) { return unary(call, "acosh"); }
Result<Values> asin(Call& call) { return unary(call, "asin"); }
Result<Values> asinh(Call& call) { return unary(call, "asinh"); }
Result<Values> atan(Call& call) { return unary(call, "atan"); }
Result<Values> atanh(Call& call) { return unary(call, "atanh"); }
Result<Values> ceil(Call& call) { return unary(call, "ceil"); }
Result<Values> cos(Call& call) { return unary(call, "cos"); }
Result<Values> cosh(Call& call) { return unary(call, "cosh"); }
Result<Values> erf(Call& call) { return unary(call, "erf"); }
Result<Values> exp(Call& call) { return unary(call, "exp"); }
Result<Values> floor(Call& call) { return unary(call, "floor"); }
Result<Values> log(Call& call) { return unary(call, "log"); }
Result<Values> neg(Call& call) { return unary(call, "neg"); }
Result<Values> reciprocal(Call& call) { return unary(call, "reciprocal"); }
Result<Values> round(Call& call) { return unary(call, "round"); }
Result<Values> sin(Call& call) { return unary(call, "sin"); }
Result<Values> sinh(Call& call) { return unary(call, "sinh"); }
Result<Values> sqrt(Call& call) { return unary(call, "sqrt"); }
Result<Values> tan(Call& call) { return unary(call, "tan"); }

}  // namespace htpipe::onnx_import::map
