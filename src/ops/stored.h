// Stored integers of quantised values as Quantize and Dequantize read and write them: any integer type, any encoding.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "tensor/tensor.h"

namespace htpipe::ops {

[[nodiscard]] inline std::int64_t load_stored(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::kI8:
      return static_cast<const std::int8_t*>(data)[i];
    case DType::kU8:
      return static_cast<const std::uint8_t*>(data)[i];
    case DType::kI16:
      return static_cast<const std::int16_t*>(data)[i];
    case DType::kU16:
      return static_cast<const std::uint16_t*>(data)[i];
    case DType::kI32:
      return static_cast<const std::int32_t*>(data)[i];
    default:
      throw BugError("not a stored integer");
  }
}

inline void save_stored(void* data, DType dtype, std::int64_t i, std::int64_t value) {
  switch (dtype) {
    case DType::kI8:
    case DType::kU8:
      static_cast<std::uint8_t*>(data)[i] = static_cast<std::uint8_t>(value);
      return;
    case DType::kI16:
    case DType::kU16:
      static_cast<std::uint16_t*>(data)[i] = static_cast<std::uint16_t>(value);
      return;
    case DType::kI32:
      static_cast<std::int32_t*>(data)[i] = static_cast<std::int32_t>(value);
      return;
    default:
      throw BugError("not a stored integer");
  }
}

[[nodiscard]] inline bool is_stored(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kU8 || dtype == DType::kI16 || dtype == DType::kU16 ||
         dtype == DType::kI32;
}

/// Calls body(element, scale) for every element of an encoded type, with the index of its scale.
template <typename Body>
void for_each_scale(const TensorType& type, Body body) {
  const Encoding& encoding = *type.encoding;
  const std::int64_t count = type.count();
  if (count == 0) return;
  if (encoding.per_tensor()) {
    for (std::int64_t i = 0; i < count; ++i) body(i, std::size_t{0});
    return;
  }
  const auto axis = static_cast<std::size_t>(encoding.axis);
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < type.shape.size(); ++i) inner *= type.shape[i];
  const std::int64_t size = type.shape[axis];
  const std::int64_t outer = count / (size * inner);
  const std::int64_t blocks = encoding.per_block() ? scale_shape(encoding, type.shape)[axis] : 0;
  std::int64_t element = 0;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t a = 0; a < size; ++a) {
      const std::int64_t row = encoding.per_block() ? (o * blocks + a / encoding.block) * inner : a;
      for (std::int64_t i = 0; i < inner; ++i) {
        body(element++, static_cast<std::size_t>(encoding.per_block() ? row + i : row));
      }
    }
  }
}

/// A float of any type, and back; half precision rounded to nearest.
[[nodiscard]] inline float load_float(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::kF64:
      return static_cast<float>(static_cast<const double*>(data)[i]);
    case DType::kF16:
      return from_f16(static_cast<const std::uint16_t*>(data)[i]);
    case DType::kBF16:
      return from_bf16(static_cast<const std::uint16_t*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}

inline void save_float(void* data, DType dtype, std::int64_t i, float value) {
  switch (dtype) {
    case DType::kF64:
      static_cast<double*>(data)[i] = static_cast<double>(value);
      return;
    case DType::kF16:
      static_cast<std::uint16_t*>(data)[i] = to_f16(value);
      return;
    case DType::kBF16:
      static_cast<std::uint16_t*>(data)[i] = to_bf16(value);
      return;
    default:
      static_cast<float*>(data)[i] = value;
  }
}

}  // namespace htpipe::ops
