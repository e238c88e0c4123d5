#include "tensor/dtype.h"

#include <array>
#include <bit>
#include <limits>

#include "base/check.h"

namespace htpipe {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t size;
  bool floating;
  std::int64_t low;
  std::int64_t high;
};

constexpr std::array<Row, 13> kRows = {{
    {DType::kF64, "f64", 8, true, 0, 0},
    {DType::kF32, "f32", 4, true, 0, 0},
    {DType::kF16, "f16", 2, true, 0, 0},
    {DType::kBF16, "bf16", 2, true, 0, 0},
    {DType::kI64, "i64", 8, false, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()},
    {DType::kI32, "i32", 4, false, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()},
    {DType::kI16, "i16", 2, false, -32768, 32767},
    {DType::kI8, "i8", 1, false, -128, 127},
    {DType::kU64, "u64", 8, false, 0, std::numeric_limits<std::int64_t>::max()},
    {DType::kU32, "u32", 4, false, 0, std::numeric_limits<std::uint32_t>::max()},
    {DType::kU16, "u16", 2, false, 0, 65535},
    {DType::kU8, "u8", 1, false, 0, 255},
    {DType::kBool, "bool", 1, false, 0, 1},
}};

const Row& row(DType dtype) {
  for (const Row& candidate : kRows) {
    if (candidate.dtype == dtype) return candidate;
  }
  throw_bug(__FILE__, __LINE__, "dtype", "unknown data type");
}

}  // namespace

std::size_t size_of(DType dtype) { return row(dtype).size; }
std::string_view name_of(DType dtype) { return row(dtype).name; }
bool is_float(DType dtype) { return row(dtype).floating; }
bool is_integer(DType dtype) { return !row(dtype).floating && dtype != DType::kBool; }
std::int64_t lowest(DType dtype) { return row(dtype).low; }
std::int64_t highest(DType dtype) { return row(dtype).high; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (const Row& candidate : kRows) {
    if (candidate.name == text) return candidate.dtype;
  }
  return std::nullopt;
}

std::uint16_t to_f16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<std::uint16_t>(sign | 0x7E00U);   // NaN
  if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);  // rounds to infinity
  if (magnitude < 0x38800000U) {                                                    // subnormal: the unit is 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 16777216.0F;
    const auto whole = static_cast<std::uint32_t>(scaled);
    const float rest = scaled - static_cast<float>(whole);
    const bool up = rest > 0.5F || (rest == 0.5F && (whole & 1U) != 0);
    return static_cast<std::uint16_t>(sign | (whole + (up ? 1U : 0U)));
  }
  const std::uint32_t rebased = magnitude - 0x38000000U;
  const std::uint32_t rounded = rebased + 0xFFFU + ((rebased >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | (rounded >> 13));
}

float from_f16(std::uint16_t bits) {
  const std::uint32_t sign = (static_cast<std::uint32_t>(bits) & 0x8000U) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1FU;
  const std::uint32_t fraction = bits & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 5.9604644775390625e-8F;  // 2^-24
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | (fraction << 13));
  return std::bit_cast<float>(sign | ((exponent + 112U) << 23) | (fraction << 13));
}

std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>((bits >> 16) | 0x40U);  // NaN stays NaN
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

}  // namespace htpipe
