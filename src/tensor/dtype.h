// Element types and their properties.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace htpipe {

/// Storage type of an element. Quantised values are stored integers; what they mean is told by an Encoding.
enum class DType : std::uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kI16, kI8, kU64, kU32, kU16, kU8, kBool };

/// Bytes of one element.
[[nodiscard]] std::size_t size_of(DType dtype);
/// "f32", "u8", "bool" …
[[nodiscard]] std::string_view name_of(DType dtype);
[[nodiscard]] std::optional<DType> parse_dtype(std::string_view text);
[[nodiscard]] bool is_float(DType dtype);
[[nodiscard]] bool is_integer(DType dtype);
/// Smallest and largest stored value of an integer type of at most 32 bits.
[[nodiscard]] std::int64_t lowest(DType dtype);
[[nodiscard]] std::int64_t highest(DType dtype);

/// IEEE binary16, round to nearest even.
[[nodiscard]] std::uint16_t to_f16(float value);
[[nodiscard]] float from_f16(std::uint16_t bits);
/// bfloat16, round to nearest even.
[[nodiscard]] std::uint16_t to_bf16(float value);
/// bfloat16 widened exactly.
[[nodiscard]] float from_bf16(std::uint16_t bits);
/// `value` rounded to the nearest binary16 and widened again.
[[nodiscard]] inline float round_f16(float value) { return from_f16(to_f16(value)); }

}  // namespace htpipe
