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

/// |a / b| in steps of the result, as product * 2^-drop.
class Quotient {
 public:
  Quotient(const Grid& a, const Grid& b, double result_scale);

  struct Value {
    std::int64_t product;
    int drop;
    bool dividend_negative, divisor_negative, by_zero;
    [[nodiscard]] bool negative() const { return dividend_negative != divisor_negative; }
  };
  [[nodiscard]] Value of(std::int64_t x, std::int64_t y) const;

 private:
  std::int64_t zero_a_, zero_b_;
  Mantissa factor_;
};

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

Quotient::Quotient(const Grid& a, const Grid& b, double result_scale)
    : zero_a_(a.zero),
      zero_b_(b.zero),
      factor_(mantissa(static_cast<double>(static_cast<float>(a.scale) / static_cast<float>(b.scale) /
                                           static_cast<float>(result_scale)),
                       15)) {
  if (factor_.value == 32768) factor_ = {16384, factor_.shift - 1};
}

Quotient::Value Quotient::of(std::int64_t x, std::int64_t y) const {
  const std::int64_t dividend = x - zero_a_;
  const std::int64_t divisor = y - zero_b_;
  if (divisor == 0) return {0, 0, dividend < 0, false, true};
  const Normalised above = Normalised::of(std::abs(dividend));
  const Normalised below = Normalised::of(std::abs(divisor));
  const std::int64_t scaled = (above.mantissa * factor_.value + 16384) >> 15;
  // The reciprocal has 28 fractional bits, 15 of the factor are gone already.
  return {scaled * reciprocal(below.mantissa), std::max(28 - 15 + factor_.shift + below.exponent - above.exponent, -30),
          dividend < 0, divisor < 0, false};
}

Binary divide(const Grid& a, const Grid& b, const Grid& out) {
  return [quotient = Quotient(a, b, out.scale), out](std::int64_t x, std::int64_t y) {
    const Quotient::Value value = quotient.of(x, y);
    if (value.by_zero) return value.dividend_negative ? std::int64_t{0} : out.high;
    if (out.wide()) {
      const std::int64_t q = shift(value.product + half_of(value.drop), value.drop);
      return clamp_to((value.negative() ? -q : q) + out.zero, 0, out.high);
    }
    const std::int64_t rounded = (value.product + 16384) >> 15;
    const std::int64_t q = shift((value.negative() ? -rounded : rounded) + half_of(value.drop - 15), value.drop - 15);
    return clamp_to(q + out.zero, 0, out.high);
  };
}

Binary floor_divide(const Grid& a, const Grid& b, const Grid& out) {
  const Mantissa steps = mantissa(1 / out.scale, 15);  // of a whole number
  return [quotient = Quotient(a, b, 1), out, steps](std::int64_t x, std::int64_t y) {
    const Quotient::Value value = quotient.of(x, y);
    if (value.by_zero) return value.dividend_negative ? std::int64_t{0} : out.high;
    if (out.wide()) {  // the fraction is cut off; below zero one whole number is taken away in steps of the result
      const std::int64_t whole = std::min(shift(value.product, value.drop), std::int64_t{1} << 40);
      const std::int64_t q = shift(whole * steps.value + half_of(steps.shift), steps.shift);
      return clamp_to((value.negative() ? -q - shift(steps.value, steps.shift) : q) + out.zero, 0, out.high);
    }
    const std::int64_t rounded = (value.product + 16384) >> 15;
    const auto whole = static_cast<double>(shift(value.negative() ? -rounded : rounded, value.drop - 15));
    const double q = std::floor(whole / out.scale + static_cast<double>(out.zero) + 0.5);
    return static_cast<std::int64_t>(std::clamp(q, 0.0, static_cast<double>(out.high)));
  };
}

}  // namespace htpipe::kernels
