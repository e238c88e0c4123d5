#include "import/onnx/onnx_quantize.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"
#include "ops/evaluate.h"
#include "tensor/checked_size.h"

namespace htpipe::onnx_import {
namespace {

std::string with(std::string_view suffix, std::string_view part) {
  return suffix.empty() ? std::string(part) : fmt::format("{}_{}", suffix, part);
}

int storage_bits(DType dtype) { return static_cast<int>(8 * size_of(dtype)); }

bool has_encodings(DType dtype) { return is_integer(dtype) && size_of(dtype) <= 4 && dtype != DType::kU32; }

/// Scales or zero points with the axes of `shape`, so that they broadcast to it.
Result<Value*> aligned(Builder& builder, Value* value, const Grid& grid, const Shape& shape, std::string_view suffix) {
  const Shape& own = value->type.shape;
  if (value->type.count() == 1 && own.size() <= 1) return builder.reshape(value, {}, with(suffix, "scalar"));
  HTPIPE_TRY(const std::int64_t axis, normal_axis(grid.axis, shape.size()));
  const auto at = static_cast<std::size_t>(axis);
  Shape wanted(shape.size(), 1);
  wanted[at] = shape[at];
  if (grid.block == 0) {
    if (own != Shape{shape[at]}) {
      return fail(Code::kShapeMismatch,
                  fmt::format("{} scales along axis {} of {}", to_string(own), axis, to_string(shape)));
    }
    return builder.reshape(value, wanted, with(suffix, "aligned"));
  }
  Encoding form;
  form.axis = static_cast<int>(axis);
  form.block = grid.block;
  if (own != scale_shape(form, shape)) {
    return fail(Code::kShapeMismatch, fmt::format("{} scales for blocks of {} along axis {} of {}", to_string(own),
                                                  grid.block, axis, to_string(shape)));
  }
  // Each scale `block` times in a row; the last block may be cut.
  Shape apart = own;
  apart.insert(apart.begin() + axis + 1, 1);
  HTPIPE_TRY(Value * repeated, builder.reshape(value, apart, with(suffix, "apart")));
  std::vector<std::int64_t> multiples(apart.size(), 1);
  multiples[at + 1] = grid.block;
  HTPIPE_TRY(repeated, builder.add("Tile", {{"multiples", multiples}}, {repeated}, with(suffix, "repeated")));
  Shape joined = own;
  joined[at] *= grid.block;
  HTPIPE_TRY(repeated, builder.reshape(repeated, joined, with(suffix, "joined")));
  return slice(builder, repeated, axis, 0, shape[at], with(suffix, "cut"));
}

/// A node whose result gets an encoding; of a constant it is computed at once.
Result<Value*> encoded(Builder& builder, Value* value, DType to, Encoding encoding, std::string_view suffix) {
  HTPIPE_TRY(Value * result, builder.add("Quantize", {{"to", std::string(name_of(to))}}, {value}, suffix));
  result->type.encoding = std::move(encoding);
  if (!value->is_constant()) return result;
  HTPIPE_TRY(auto tensors, evaluate(*result->producer, std::size_t{1} << 20));
  const std::string name = result->name;
  builder.graph().erase(result->producer);
  return builder.graph().add_constant(name, std::move(tensors.front()));
}

}  // namespace

std::optional<Encoding> encoding_of(const Grid& grid, const TensorType& type, int bits) {
  if (!has_encodings(type.dtype) || !grid.scale->is_constant()) return std::nullopt;
  if (grid.zero_point != nullptr && !grid.zero_point->is_constant()) return std::nullopt;
  Encoding encoding;
  encoding.bits = bits != 0 ? bits : storage_bits(type.dtype);
  if (grid.scale->type.count() != 1 || grid.scale->type.shape.size() > 1 || grid.block != 0) {
    const auto axis = normal_axis(grid.axis, type.shape.size());
    if (!axis) return std::nullopt;
    encoding.axis = static_cast<int>(*axis);
    encoding.block = grid.block;
    if (grid.scale->type.shape != scale_shape(encoding, type.shape)) return std::nullopt;
  }
  encoding.scales = to_floats(grid.scale->constant);
  encoding.zero_points.assign(encoding.scales.size(), 0);
  if (grid.zero_point != nullptr) {
    const IntList zeros = to_integers(grid.zero_point->constant);
    if (zeros.size() != encoding.scales.size()) return std::nullopt;
    for (std::size_t i = 0; i < zeros.size(); ++i) encoding.zero_points[i] = static_cast<std::int32_t>(zeros[i]);
  }
  const auto usable = [](float scale) { return scale > 0.0F && std::isfinite(scale) && scale <= 3.0e38F; };
  if (!std::all_of(encoding.scales.begin(), encoding.scales.end(), usable)) return std::nullopt;
  return encoding;
}

Result<Value*> plain(Builder& builder, Value* value, std::string_view suffix) {
  if (!value->type.encoding) return value;
  const Encoding encoding = *value->type.encoding;
  TensorType type = value->type;
  type.encoding.reset();
  if (value->is_constant()) return builder.constant(suffix, value->constant.with_type(type));
  // What Dequantize does, undone: exact, because stored values of up to 16 bits are exact in float32.
  if (size_of(type.dtype) > 2) return fail(Code::kUnsupportedForm, "computed 32-bit values with an encoding");
  Grid grid;
  grid.axis = encoding.axis;
  grid.block = encoding.block;
  const Shape shape = scale_shape(encoding, type.shape);
  grid.scale = builder.floats(with(suffix, "scale"), shape, encoding.scales);
  const IntList zeros(encoding.zero_points.begin(), encoding.zero_points.end());
  Value* zero_point = builder.integers(with(suffix, "zero"), shape, zeros);
  HTPIPE_TRY(Value * real, builder.add("Dequantize", {{"to", std::string("f32")}}, {value}, with(suffix, "real")));
  HTPIPE_TRY(Value * scale, aligned(builder, grid.scale, grid, type.shape, with(suffix, "scale")));
  HTPIPE_TRY(Value * steps, builder.binary("divide", real, scale, with(suffix, "steps")));
  HTPIPE_TRY(Value * whole, builder.unary("round", steps, with(suffix, "whole")));
  HTPIPE_TRY(Value * zero, aligned(builder, zero_point, grid, type.shape, with(suffix, "zero")));
  HTPIPE_TRY(zero, builder.cast(zero, DType::kF32, with(suffix, "zero_f32")));
  HTPIPE_TRY(Value * stored, builder.binary("add", whole, zero, with(suffix, "stored")));
  return builder.cast(stored, type.dtype, suffix);
}

Result<Value*> dequantized(Builder& builder, Value* value, const Grid& grid, int bits, DType to,
                           std::string_view suffix) {
  const std::string to_name(name_of(to));
  const TensorType& type = value->type;
  const auto encoding = encoding_of(grid, type, bits);
  if (encoding && type.encoding && type.encoding->scales == encoding->scales &&
      type.encoding->zero_points == encoding->zero_points && type.encoding->axis == encoding->axis &&
      type.encoding->block == encoding->block) {
    return builder.add("Dequantize", {{"to", to_name}}, {value}, suffix);
  }
  if (encoding && value->is_constant()) {
    TensorType stored_type = type;
    stored_type.encoding = encoding;
    const std::string name = value->name;
    Value* stored = builder.graph().add_constant(name, value->constant.with_type(std::move(stored_type)));
    return builder.add("Dequantize", {{"to", to_name}}, {stored}, suffix);
  }
  HTPIPE_TRY(Value * whole, plain(builder, value, with(suffix, "plain")));
  // The difference of integers is exact where both are wide enough.
  HTPIPE_TRY(whole, builder.cast(whole, DType::kI32, with(suffix, "i32")));
  if (grid.zero_point != nullptr) {
    HTPIPE_TRY(Value * zero, aligned(builder, grid.zero_point, grid, type.shape, with(suffix, "zero")));
    HTPIPE_TRY(zero, builder.cast(zero, DType::kI32, with(suffix, "zero_i32")));
    HTPIPE_TRY(whole, builder.binary("subtract", whole, zero, with(suffix, "difference")));
  }
  HTPIPE_TRY(Value * real, builder.cast(whole, DType::kF32, with(suffix, "real")));
  HTPIPE_TRY(Value * scale, aligned(builder, grid.scale, grid, type.shape, with(suffix, "scale")));
  HTPIPE_TRY(scale, builder.cast(scale, DType::kF32, with(suffix, "scale_f32")));
  HTPIPE_TRY(Value * product,
             builder.binary("multiply", real, scale, to == DType::kF32 ? suffix : with(suffix, "f32")));
  return builder.cast(product, to, suffix);
}

Result<Value*> quantized(Builder& builder, Value* value, const Grid& grid, DType to, int bits,
                         std::string_view suffix) {
  if (!is_float(value->type.dtype)) {
    HTPIPE_TRY(value, builder.cast(value, DType::kF32, with(suffix, "real")));
  }
  TensorType type{to, value->type.shape, std::nullopt};
  if (auto encoding = encoding_of(grid, type, bits)) return encoded(builder, value, to, std::move(*encoding), suffix);
  HTPIPE_TRY(value, builder.cast(value, DType::kF32, with(suffix, "f32")));
  HTPIPE_TRY(Value * scale, aligned(builder, grid.scale, grid, type.shape, with(suffix, "scale")));
  HTPIPE_TRY(scale, builder.cast(scale, DType::kF32, with(suffix, "scale_f32")));
  HTPIPE_TRY(Value * steps, builder.binary("divide", value, scale, with(suffix, "steps")));
  HTPIPE_TRY(Value * whole, builder.unary("round", steps, with(suffix, "whole")));
  if (grid.zero_point != nullptr) {
    HTPIPE_TRY(Value * zero, aligned(builder, grid.zero_point, grid, type.shape, with(suffix, "zero")));
    HTPIPE_TRY(zero, builder.cast(zero, DType::kF32, with(suffix, "zero_f32")));
    HTPIPE_TRY(whole, builder.binary("add", whole, zero, with(suffix, "moved")));
  }
  const int width = bits != 0 ? bits : storage_bits(to);
  const bool is_signed = name_of(to).front() == 'i';
  const double low = is_signed ? -std::ldexp(1.0, width - 1) : 0.0;
  const double high = std::ldexp(1.0, is_signed ? width - 1 : width) - 1;
  HTPIPE_TRY(whole, builder.binary("maximum", whole, low, with(suffix, "above")));
  HTPIPE_TRY(whole, builder.binary("minimum", whole, high, with(suffix, "below")));
  return builder.cast(whole, to, suffix);
}

namespace map {
namespace {

Result<Grid> grid_of(Call& call) {
  Grid grid;
  HTPIPE_TRY(grid.scale, call.input(1));
  grid.zero_point = call.optional_input(2);
  HTPIPE_TRY(grid.axis, call.integer("axis", 1));
  HTPIPE_TRY(grid.block, call.integer("block_size", 0));
  if (grid.block < 0) return fail(Code::kOnnxInvalid, "a negative block_size");
  if (!is_float(grid.scale->type.dtype)) return fail(Code::kOnnxInvalid, "scales are no real numbers");
  if (grid.zero_point != nullptr && !has_encodings(grid.zero_point->type.dtype)) {
    return fail(Code::kUnsupportedForm, fmt::format("zero points of type {}", name_of(grid.zero_point->type.dtype)));
  }
  return grid;
}

}  // namespace

Result<Values> dequantize_linear(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const Grid grid, grid_of(call));
  if (!has_encodings(input->type.dtype)) {
    return fail(Code::kUnsupportedForm, fmt::format("DequantizeLinear of {}", name_of(input->type.dtype)));
  }
  HTPIPE_TRY(const std::int64_t output, call.integer("output_dtype", 0));
  DType to = grid.scale->type.dtype;
  if (output != 0) {
    const auto dtype = dtype_of(static_cast<std::int32_t>(output));
    if (!dtype || !is_float(*dtype)) {
      return fail(Code::kUnsupportedForm, data_type_name(static_cast<std::int32_t>(output)));
    }
    to = *dtype;
  }
  return one(dequantized(call, input, grid, call.bits_of(input), to));
}

Result<Values> quantize_linear(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const Grid grid, grid_of(call));
  HTPIPE_TRY(const std::int64_t output, call.integer("output_dtype", 0));
  DType to = DType::kU8;
  int bits = 0;
  if (grid.zero_point != nullptr) {
    to = grid.zero_point->type.dtype;
    bits = call.bits_of(grid.zero_point);
  } else if (output != 0) {
    const auto dtype = dtype_of(static_cast<std::int32_t>(output));
    if (!dtype || !has_encodings(*dtype)) {
      return fail(Code::kUnsupportedForm, data_type_name(static_cast<std::int32_t>(output)));
    }
    to = *dtype;
    bits = narrow_bits(static_cast<std::int32_t>(output));
  }
  HTPIPE_TRY(Value * result, quantized(call, input, grid, to, bits));
  call.set_bits(result, bits);
  return Values{result};
}

Result<Values> dynamic_quantize_linear(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  const IntList all = count_up(0, rank_of(input));
  HTPIPE_TRY(Value * largest, reduce(call, "ReduceMax", input, all, false, "largest"));
  HTPIPE_TRY(Value * smallest, reduce(call, "ReduceMin", input, all, false, "smallest"));
  HTPIPE_TRY(largest, call.binary("maximum", largest, 0.0, "high"));
  HTPIPE_TRY(smallest, call.binary("minimum", smallest, 0.0, "low"));
  HTPIPE_TRY(Value * width, call.binary("subtract", largest, smallest, "width"));
  HTPIPE_TRY(Value * scale, call.binary("divide", width, 255.0, "scale"));
  HTPIPE_TRY(Value * steps, call.binary("divide", smallest, scale, "steps"));
  HTPIPE_TRY(Value * moved, call.unary("neg", steps, "moved"));
  HTPIPE_TRY(Value * above, call.binary("maximum", moved, 0.0, "above"));
  HTPIPE_TRY(Value * inside, call.binary("minimum", above, 255.0, "inside"));
  HTPIPE_TRY(Value * whole, call.unary("round", inside, "whole"));
  HTPIPE_TRY(Value * zero_point, call.cast(whole, DType::kU8, "zero_point"));
  Grid grid;
  grid.scale = scale;
  grid.zero_point = zero_point;
  HTPIPE_TRY(Value * result, quantized(call, input, grid, DType::kU8, 0));
  call.warn("scale and zero point are computed while the model runs");
  return Values{result, scale, zero_point};
}

}  // namespace map
}  // namespace htpipe::onnx_import
