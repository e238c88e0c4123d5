#include "ops/element.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace htpipe::ops {
namespace {

template <typename T>
Element bytes_of(T value) {
  Element element{};
  std::memcpy(element.data(), &value, sizeof(value));
  return element;
}

/// The nearest integer of the type; NaN becomes 0.
std::int64_t cut(double value, DType dtype) {
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(value);
  const std::int64_t low = lowest(dtype);
  const std::int64_t high = highest(dtype);
  if (rounded <= static_cast<double>(low)) return low;
  if (rounded >= static_cast<double>(high)) return high;
  return static_cast<std::int64_t>(rounded);
}

}  // namespace

Result<Element> element_of(double value, const TensorType& type) {
  if (type.encoding) {
    if (!type.encoding->per_tensor())
      return fail(Code::kNoFixedRule, "a constant among values with scales per channel");
    const double stored = value / static_cast<double>(type.encoding->scale());
    return bytes_of(cut(std::nearbyint(stored) + type.encoding->zero_point(), type.dtype));
  }
  switch (type.dtype) {
    case DType::kF64:
      return bytes_of(value);
    case DType::kF32:
      return bytes_of(static_cast<float>(value));
    case DType::kF16:
      return bytes_of(to_f16(static_cast<float>(value)));
    case DType::kBF16:
      return bytes_of(to_bf16(static_cast<float>(value)));
    case DType::kBool:
      return bytes_of(static_cast<std::uint8_t>(value != 0 ? 1 : 0));
    default:
      // Two's complement in little-endian order: the low bytes are the narrower integer.
      return bytes_of(cut(value, type.dtype));
  }
}

void fill(void* to, std::int64_t count, const Element& element, std::size_t size) {
  auto* target = static_cast<std::byte*>(to);
  const auto bytes = static_cast<std::size_t>(count) * size;
  if (bytes == 0) return;
  std::memcpy(target, element.data(), size);
  for (std::size_t done = size; done < bytes;) {  // what is written already is copied behind itself
    const std::size_t part = std::min(done, bytes - done);
    std::memcpy(target + done, target, part);
    done += part;
  }
}

}  // namespace htpipe::ops
