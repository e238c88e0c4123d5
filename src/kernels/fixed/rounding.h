// Rounding and scaling primitives of HTP integer arithmetic, named as in docs/htp-arithmetic.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tensor/dtype.h"

namespace htpipe::kernels {

/// Arithmetic shift: right (floor) for k >= 0, left for k < 0.
[[nodiscard]] inline std::int64_t shift(std::int64_t a, int k) {
  return k >= 0 ? a >> std::min(k, 62) : a * (std::int64_t{1} << std::min(-k, 61));
}

/// Round half away from zero in single precision: trunc(x + copysign(0.5, x)).
[[nodiscard]] inline float round_half_away(float x) { return std::trunc(x + std::copysign(0.5F, x)); }

/// The binary16 number nearest to `value`; unlike IEEE's default the chip rounds halves away from zero.
[[nodiscard]] inline std::uint16_t to_f16_half_away(float value) {
  const std::uint16_t nearest = to_f16(value);
  const float back = from_f16(nearest);
  // Halves went to the even neighbour: step outwards when that was inwards. `2 value - back` is exact and the other one.
  if (!(std::fabs(back) < std::fabs(value))) return nearest;
  const auto outwards = static_cast<std::uint16_t>(nearest + 1);
  return from_f16(outwards) == 2 * value - back ? outwards : nearest;
}

/// floor(log2(x)) for x > 0, exact.
[[nodiscard]] inline int floor_log2(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return exponent - 1;
}

/// A positive real with `bits` significant bits, as integer * 2^-shift.
struct Mantissa {
  std::int64_t value;
  int shift;
};
/// `x` rounded (half up) to `bits` significant bits.
[[nodiscard]] inline Mantissa mantissa(double x, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  return {static_cast<std::int64_t>(std::floor(std::ldexp(fraction, bits) + 0.5)), bits - exponent};
}

[[nodiscard]] inline std::int64_t clamp_to(std::int64_t value, std::int64_t low, std::int64_t high) {
  return std::clamp(value, low, high);
}

}  // namespace htpipe::kernels
