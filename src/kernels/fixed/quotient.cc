#include "kernels/fixed/quotient.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>

#include "kernels/fixed/rounding.h"

namespace htpipe::kernels {
namespace {

/// c0 + c1 t + c2 t^2 for one quarter of t = mantissa / 2^14 - 1, the coefficients in 2^-15, 2^-15 and 2^-14.
struct Parabola {
  std::int64_t c2;
  std::int64_t c1;
  std::int64_t c0;
};
constexpr std::array<Parabola, 4> kReciprocal = {
    {{11794, -32086, 32768}, {6555, -27318, 32231}, {3945, -22353, 31053}, {2530, -18222, 29547}}};

std::int64_t half_of(int bits) { return bits > 0 ? std::int64_t{1} << (bits - 1) : 0; }

}  // namespace

Normalised Normalised::of(std::int64_t magnitude) {
  if (magnitude == 0) return {};
  const int exponent = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(magnitude))) - 15;
  return {shift(magnitude, exponent), exponent};
}

std::int64_t reciprocal(std::int64_t mantissa) {
  const std::int64_t t = mantissa - 16384;
  const Parabola& p = kReciprocal[static_cast<std::size_t>(t >> 12)];
  const std::int64_t slope = (t * p.c2 + (p.c1 << 13)) >> 14;
  return (t * slope + ((p.c0 + 1) << 13)) >> 14;
}

Binary divide(const Grid& a, const Grid& b, const Grid& out) {
  const double ratio =
      static_cast<double>(static_cast<float>(a.scale) / static_cast<float>(b.scale) / static_cast<float>(out.scale));
  Mantissa factor = mantissa(ratio, 15);
  if (factor.value == 32768) factor = {16384, factor.shift - 1};
  return [=](std::int64_t x, std::int64_t y) {
    const std::int64_t dividend = x - a.zero;
    const std::int64_t divisor = y - b.zero;
    if (divisor == 0) return dividend < 0 ? std::int64_t{0} : out.high;
    const bool negative = (dividend < 0) != (divisor < 0);
    const Normalised above = Normalised::of(std::abs(dividend));
    const Normalised below = Normalised::of(std::abs(divisor));
    const std::int64_t scaled = (above.mantissa * factor.value + 16384) >> 15;
    const std::int64_t product = scaled * reciprocal(below.mantissa);
    // The quotient is product * 2^-drop: the reciprocal has 28 fractional bits, 15 of the factor are gone already.
    const int drop = std::max(28 - 15 + factor.shift + below.exponent - above.exponent, -30);
    if (out.wide()) {
      const std::int64_t q = shift(product + half_of(drop), drop);
      return clamp_to((negative ? -q : q) + out.zero, 0, out.high);
    }
    const std::int64_t rounded = (product + 16384) >> 15;
    const std::int64_t q = shift((negative ? -rounded : rounded) + half_of(drop - 15), drop - 15);
    return clamp_to(q + out.zero, 0, out.high);
  };
}

}  // namespace htpipe::kernels
