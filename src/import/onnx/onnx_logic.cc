// Comparisons, logic, bits and data types.
#include <fmt/core.h>

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

Result<Values> comparison(Call& call, std::string_view operation) {
  HTPIPE_TRY(const Operands in, two_operands(call));
  return one(compare(call, operation, in.a, in.b));
}

Result<DType> target_type(Call& call, std::string_view attribute) {
  HTPIPE_TRY(const std::int64_t to, call.integer(attribute));
  const auto data_type = static_cast<std::int32_t>(to);
  const auto dtype = dtype_of(data_type);
  if (!dtype || narrow_bits(data_type) != 0) {
    return fail(Code::kUnsupportedForm, fmt::format("the data type {}", data_type_name(data_type)));
  }
  return *dtype;
}

Result<Values> cast_to(Call& call, Value* input, DType to) {
  const bool to_unsigned = is_integer(to) && name_of(to).front() == 'u';
  if (to_unsigned && is_float(input->type.dtype) && size_of(to) == 8) {
    call.warn("real numbers outside the range of an unsigned type have no defined value");
  }
  return one(call.cast(input, to));
}

}  // namespace

Result<Values> equal(Call& call) { return binary(call, "equal"); }
Result<Values> greater(Call& call) { return comparison(call, "greater"); }
Result<Values> greater_or_equal(Call& call) { return comparison(call, "greater_equal"); }
Result<Values> less(Call& call) { return comparison(call, "less"); }
Result<Values> less_or_equal(Call& call) { return comparison(call, "less_equal"); }
Result<Values> and_(Call& call) { return binary(call, "and"); }
Result<Values> or_(Call& call) { return binary(call, "or"); }
Result<Values> xor_(Call& call) { return binary(call, "xor"); }
Result<Values> bitwise_and(Call& call) { return binary(call, "bit_and"); }
Result<Values> bitwise_or(Call& call) { return binary(call, "bit_or"); }
Result<Values> bitwise_xor(Call& call) { return binary(call, "bit_xor"); }

Result<Values> not_(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  return one(call.unary("not", input));
}

Result<Values> bitwise_not(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  return one(call.unary("bit_not", input));
}

Result<Values> bit_shift(Call& call) {
  HTPIPE_TRY(Value * value, call.input(0));
  HTPIPE_TRY(Value * distance, call.input(1));
  HTPIPE_TRY(const std::string direction, call.text("direction"));
  if (direction == "RIGHT") return one(shift_right(call, value, distance));
  if (direction != "LEFT") return fail(Code::kOnnxInvalid, "BitShift with direction " + direction);
  if (value->type.dtype != DType::kU64) return one(call.binary("shift_left", value, distance));
  HTPIPE_TRY(Value * bits, call.cast(value, DType::kI64, "bits"));
  HTPIPE_TRY(Value * steps, call.cast(distance, DType::kI64, "steps"));
  HTPIPE_TRY(Value * moved, call.binary("shift_left", bits, steps, "moved"));
  return one(call.cast(moved, DType::kU64));
}

Result<Values> where(Call& call) {
  HTPIPE_TRY(Value * condition, call.input(0));
  HTPIPE_TRY(Value * a, call.input(1));
  HTPIPE_TRY(Value * b, call.input(2));
  return one(select(call, condition, a, b));
}

Result<Values> is_nan(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  return one(call.add("IsNan", {}, {input}));
}

Result<Values> is_inf(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const std::int64_t negative, call.integer("detect_negative", 1));
  HTPIPE_TRY(const std::int64_t positive, call.integer("detect_positive", 1));
  return one(call.add("IsInf", {{"detect_negative", negative != 0}, {"detect_positive", positive != 0}}, {input}));
}

Result<Values> cast(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const DType to, target_type(call, "to"));
  return cast_to(call, input, to);
}

Result<Values> cast_like(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const Value* like, call.input(1));
  if (call.bits_of(like) != 0) {
    return fail(Code::kUnsupportedForm, fmt::format("a cast to integers of {} bits", call.bits_of(like)));
  }
  return cast_to(call, input, like->type.dtype);
}

Result<Values> bit_cast(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const DType to, target_type(call, "to"));
  const DType from = input->type.dtype;
  if (size_of(from) != size_of(to)) return fail(Code::kOnnxInvalid, "BitCast between types of different widths");
  if (from == to) return Values{input};
  if (input->is_constant()) {
    return Values{call.constant("", input->constant.with_type({to, input->type.shape, std::nullopt}))};
  }
  // Integers keep their bits when they are cast.
  if (!is_float(from) && !is_float(to) && to != DType::kBool) return one(call.cast(input, to));
  return fail(Code::kUnsupportedForm, fmt::format("the bits of computed {} read as {}", name_of(from), name_of(to)));
}

Result<Values> binarizer(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const float threshold, call.real("threshold", 0.0F));
  HTPIPE_TRY(Value * above, call.binary("greater", input, static_cast<double>(threshold), "above"));
  return one(call.cast(above, input->type.dtype));
}

}  // namespace htpipe::onnx_import::map
