// Rounding and scaling primitives of HTP integer arithmetic, named as in docs/htp-arithmetic.md.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace htpipe::kernels {

/// Arithmetic shift: right (floor) for k >= 0, left for k < 0.
[[nodiscard]] inline std::int64_t shift(std::int64_t a, int k) {
  return k >= 0 ? a >> std::min(k, 62) : a * (std::int64_t{1} << std::min(-k, 61));
}

/// Round half away from zero in single precision: trunc(x + copysign(0.5, x)).
[[nodiscard]] inline float round_half_away(float x) { return std::trunc(x + std::copysign(0.5F, x)); }

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
