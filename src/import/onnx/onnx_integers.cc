#include "import/onnx/onnx_integers.h"

#include <fmt/core.h>

#include <limits>
#include <string>

#include "import/onnx/onnx_helpers.h"

namespace htpipe::onnx_import {
namespace {

constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

Value* number(Builder& builder, std::string_view suffix, std::int64_t value) {
  return builder.integers(suffix, Shape{}, IntList{value});
}

std::string with(std::string_view suffix, std::string_view part) {
  return suffix.empty() ? std::string(part) : fmt::format("{}_{}", suffix, part);
}

/// The quotient of the numbers that the bits of `a` and `b`, both i64, stand for: half of `a` is a signed number.
Result<Value*> unsigned_quotient(Builder& builder, Value* a, Value* b, const std::string& suffix) {
  Value* one = number(builder, with(suffix, "one"), 1);
  Value* zero = number(builder, with(suffix, "zero"), 0);
  HTPIPE_TRY(Value * moved, builder.binary("shift_right", a, one, with(suffix, "moved")));
  HTPIPE_TRY(Value * half,
             builder.binary("bit_and", moved, number(builder, with(suffix, "mask"), kHighest), with(suffix, "half")));
  HTPIPE_TRY(Value * half_quotient, builder.binary("divide", half, b, with(suffix, "half_quotient")));
  HTPIPE_TRY(Value * low, builder.binary("shift_left", half_quotient, one, with(suffix, "low")));
  HTPIPE_TRY(Value * product, builder.binary("multiply", low, b, with(suffix, "product")));
  HTPIPE_TRY(Value * rest, builder.binary("subtract", a, product, with(suffix, "rest")));
  // The same order as unsigned: the highest bit turned over.
  Value* top = number(builder, with(suffix, "top"), kLowest);
  HTPIPE_TRY(Value * rest_order, builder.binary("bit_xor", rest, top, with(suffix, "rest_order")));
  HTPIPE_TRY(Value * a_order, builder.binary("bit_xor", a, top, with(suffix, "a_order")));
  HTPIPE_TRY(Value * b_order, builder.binary("bit_xor", b, top, with(suffix, "b_order")));
  HTPIPE_TRY(Value * more, builder.binary("greater_equal", rest_order, b_order, with(suffix, "more")));
  HTPIPE_TRY(Value * more_number, builder.cast(more, DType::kI64, with(suffix, "more_number")));
  HTPIPE_TRY(Value * small, builder.binary("add", low, more_number, with(suffix, "small")));
  HTPIPE_TRY(Value * fits, builder.binary("greater_equal", a_order, b_order, with(suffix, "fits")));
  HTPIPE_TRY(Value * fits_number, builder.cast(fits, DType::kI64, with(suffix, "fits_number")));
  HTPIPE_TRY(Value * large, builder.binary("less", b, zero, with(suffix, "large")));
  return select(builder, large, fits_number, small, with(suffix, "quotient"));
}

}  // namespace

Result<Value*> to_ordered(Builder& builder, Value* value, std::string_view suffix) {
  if (value->type.dtype != DType::kU64) return value;
  HTPIPE_TRY(Value * bits, builder.cast(value, DType::kI64, with(suffix, "bits")));
  return builder.binary("bit_xor", bits, number(builder, with(suffix, "top"), kLowest), with(suffix, "order"));
}

Result<Value*> from_ordered(Builder& builder, Value* value, DType dtype, std::string_view suffix) {
  if (dtype != DType::kU64) return value;
  HTPIPE_TRY(Value * bits,
             builder.binary("bit_xor", value, number(builder, with(suffix, "top"), kLowest), with(suffix, "bits")));
  return builder.cast(bits, DType::kU64, suffix);
}

Result<Value*> compare(Builder& builder, std::string_view operation, Value* a, Value* b, std::string_view suffix) {
  if (a->type.dtype == DType::kU64 && b->type.dtype == DType::kU64) {
    HTPIPE_TRY(a, to_ordered(builder, a, with(suffix, "a")));
    HTPIPE_TRY(b, to_ordered(builder, b, with(suffix, "b")));
  }
  return builder.binary(operation, a, b, suffix);
}

Result<Value*> extremum(Builder& builder, std::string_view operation, Value* a, Value* b, std::string_view suffix) {
  const DType dtype = a->type.dtype;
  if (dtype != DType::kU64 || b->type.dtype != dtype) return builder.binary(operation, a, b, suffix);
  HTPIPE_TRY(a, to_ordered(builder, a, with(suffix, "a")));
  HTPIPE_TRY(b, to_ordered(builder, b, with(suffix, "b")));
  HTPIPE_TRY(Value * found, builder.binary(operation, a, b, with(suffix, "found")));
  return from_ordered(builder, found, dtype, suffix);
}

Result<Value*> quotient(Builder& builder, std::string_view operation, Value* a, Value* b, std::string_view suffix) {
  if (a->type.dtype != DType::kU64 || b->type.dtype != DType::kU64) return builder.binary(operation, a, b, suffix);
  HTPIPE_TRY(a, builder.cast(a, DType::kI64, with(suffix, "a")));
  HTPIPE_TRY(b, builder.cast(b, DType::kI64, with(suffix, "b")));
  HTPIPE_TRY(Value * result, unsigned_quotient(builder, a, b, std::string(suffix)));
  if (operation != "divide") {
    HTPIPE_TRY(Value * product, builder.binary("multiply", result, b, with(suffix, "whole")));
    HTPIPE_TRY(result, builder.binary("subtract", a, product, with(suffix, "remainder")));
  }
  return builder.cast(result, DType::kU64, suffix);
}

Result<Value*> shift_right(Builder& builder, Value* value, Value* distance, std::string_view suffix) {
  if (value->type.dtype != DType::kU64 || distance->type.dtype != DType::kU64) {
    return builder.binary("shift_right", value, distance, suffix);
  }
  HTPIPE_TRY(Value * bits, builder.cast(value, DType::kI64, with(suffix, "bits")));
  HTPIPE_TRY(Value * steps, builder.cast(distance, DType::kI64, with(suffix, "steps")));
  HTPIPE_TRY(Value * moved, builder.binary("shift_right", bits, steps, with(suffix, "moved")));
  // Ones where copies of the highest bit came in: the highest (steps) bits.
  HTPIPE_TRY(Value * kept,
             builder.binary("subtract", number(builder, with(suffix, "width"), 64), steps, with(suffix, "kept")));
  HTPIPE_TRY(Value * copies,
             builder.binary("shift_left", number(builder, with(suffix, "ones"), -1), kept, with(suffix, "copies")));
  HTPIPE_TRY(Value * mask, builder.unary("bit_not", copies, with(suffix, "mask")));
  HTPIPE_TRY(Value * masked, builder.binary("bit_and", moved, mask, with(suffix, "masked")));
  // A distance of 64 or more (negative as a signed number included) leaves nothing.
  HTPIPE_TRY(Value * high,
             builder.binary("greater", steps, number(builder, with(suffix, "last"), 63), with(suffix, "high")));
  HTPIPE_TRY(Value * low,
             builder.binary("less", steps, number(builder, with(suffix, "first"), 0), with(suffix, "low")));
  HTPIPE_TRY(Value * outside, builder.binary("or", high, low, with(suffix, "outside")));
  HTPIPE_TRY(Value * result,
             select(builder, outside, number(builder, with(suffix, "nothing"), 0), masked, with(suffix, "result")));
  return builder.cast(result, DType::kU64, suffix);
}

}  // namespace htpipe::onnx_import
