// Tensors that are made of numbers: ranges, fillings, masks.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"
#include "tensor/checked_size.h"

namespace htpipe::onnx_import::map {
namespace {

constexpr std::int64_t kLongestRange = std::int64_t{1} << 26;
constexpr std::int64_t kLargestMask = std::int64_t{1} << 27;

__extension__ using Wide = __int128;

template <typename T>
void write(Tensor& tensor, double start, double delta) {
  const auto data = tensor.mutable_data<T>();
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<T>(start + static_cast<double>(i) * delta);
}

Result<Tensor> integer_range(std::int64_t start, std::int64_t limit, std::int64_t delta) {
  // Counted in 128 bits: the distance may not fit 64.
  const Wide distance = static_cast<Wide>(limit) - start;
  const Wide step = delta;
  Wide count = 0;
  if ((distance > 0) == (step > 0) && distance != 0) {
    count = step > 0 ? (distance + step - 1) / step : (-distance - step - 1) / -step;
  }
  if (count > kLongestRange) return fail(Code::kUnsupportedForm, "an absurdly long Range");
  Tensor tensor(TensorType{DType::kI64, {static_cast<std::int64_t>(count)}, std::nullopt});
  const auto data = tensor.mutable_data<std::int64_t>();
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(start) + i * static_cast<std::uint64_t>(delta));
  }
  return tensor;
}

/// A mask [rows, columns] that is true where column - row is within [low, high].
Tensor band(std::int64_t rows, std::int64_t columns, std::int64_t low, std::int64_t high) {
  Tensor mask(TensorType{DType::kBool, {rows, columns}, std::nullopt});
  const auto data = mask.mutable_data<std::uint8_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const bool inside = column - row >= low && column - row <= high;
      data[static_cast<std::size_t>(row * columns + column)] = inside ? 1 : 0;
    }
  }
  return mask;
}

}  // namespace

Result<Values> range(Call& call) {
  HTPIPE_TRY(const Value* first, call.input(0));
  const DType dtype = first->type.dtype;
  for (std::size_t i = 0; i < 3; ++i) {
    HTPIPE_TRY(const Tensor tensor, call.constant_input(i));
    if (tensor.count() != 1) return fail(Code::kOnnxInvalid, "Range takes single numbers");
  }
  if (is_integer(dtype)) {
    HTPIPE_TRY(const IntList start, call.integers_input(0));
    HTPIPE_TRY(const IntList limit, call.integers_input(1));
    HTPIPE_TRY(const IntList delta, call.integers_input(2));
    if (delta[0] == 0) return fail(Code::kOnnxInvalid, "Range with delta 0");
    HTPIPE_TRY(Tensor tensor, integer_range(start[0], limit[0], delta[0]));
    return one(call.cast(call.constant(dtype == DType::kI64 ? "" : "i64", std::move(tensor)), dtype));
  }
  HTPIPE_TRY(const double start, number_input(call, 0));
  HTPIPE_TRY(const double limit, number_input(call, 1));
  HTPIPE_TRY(const double delta, number_input(call, 2));
  const double count = std::ceil((limit - start) / delta);
  if (!(count <= static_cast<double>(kLongestRange))) return fail(Code::kUnsupportedForm, "an absurdly long Range");
  const TensorType type{
      dtype == DType::kF64 ? dtype : DType::kF32, {static_cast<std::int64_t>(std::max(count, 0.0))}, std::nullopt};
  Tensor tensor(type);
  if (type.dtype == DType::kF64) {
    write<double>(tensor, start, delta);
  } else {
    write<float>(tensor, start, delta);
  }
  return one(call.cast(call.constant(type.dtype == dtype ? "" : "f32", std::move(tensor)), dtype));
}

Result<Values> constant_of_shape(Call& call) {
  HTPIPE_TRY(const IntList shape, call.integers_input(0));
  Tensor value = filled({DType::kF32, {}, std::nullopt}, 0);
  if (call.has_attribute("value")) {
    HTPIPE_TRY(value, call.tensor_attribute("value"));
    if (value.count() != 1) return fail(Code::kOnnxInvalid, "the value of ConstantOfShape is not one element");
  }
  if (!checked_size_bytes(shape, value.dtype())) {
    return fail(Code::kOnnxInvalid, fmt::format("the shape {}", to_string(shape)));
  }
  value = value.with_type({value.dtype(), {}, std::nullopt});
  return one(call.expand(call.constant(shape.empty() ? "" : "value", std::move(value)), shape));
}

Result<Values> eye_like(Call& call) {
  HTPIPE_TRY(const Value* input, call.input(0));
  const Shape& shape = input->type.shape;
  if (shape.size() != 2) return fail(Code::kOnnxInvalid, "EyeLike of a tensor that is no matrix");
  DType dtype = input->type.dtype;
  if (call.has_attribute("dtype")) {
    HTPIPE_TRY(const std::int64_t given, call.integer("dtype"));
    const auto known = dtype_of(static_cast<std::int32_t>(given));
    if (!known || narrow_bits(static_cast<std::int32_t>(given)) != 0) {
      return fail(Code::kUnsupportedForm, data_type_name(static_cast<std::int32_t>(given)));
    }
    dtype = *known;
  }
  HTPIPE_TRY(const std::int64_t k, call.integer("k", 0));
  if (input->type.count() > kLargestMask) return fail(Code::kUnsupportedForm, "an absurdly large EyeLike");
  return one(call.cast(call.constant(dtype == DType::kBool ? "" : "mask", band(shape[0], shape[1], k, k)), dtype));
}

Result<Values> trilu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const std::int64_t upper, call.integer("upper", 1));
  std::int64_t k = 0;
  if (call.has(1)) {
    HTPIPE_TRY(const IntList given, call.integers_input(1));
    if (given.size() != 1) return fail(Code::kOnnxInvalid, "k of Trilu is not one number");
    k = given[0];
  }
  const Shape& shape = input->type.shape;
  if (shape.size() < 2) return fail(Code::kOnnxInvalid, "Trilu of a tensor that is no matrix");
  const std::int64_t rows = shape[shape.size() - 2];
  const std::int64_t columns = shape.back();
  if (count_between(shape, rank_of(input) - 2, rank_of(input)) > kLargestMask) {
    return fail(Code::kUnsupportedForm, "an absurdly large Trilu");
  }
  constexpr std::int64_t kFar = std::numeric_limits<std::int64_t>::max();
  Value* mask = call.constant("mask", upper != 0 ? band(rows, columns, k, kFar) : band(rows, columns, -kFar, k));
  return one(select(call, mask, input, call.scalar("zero", 0, input->type.dtype)));
}

}  // namespace htpipe::onnx_import::map
