// Elementary functions of sixteen floats. Coefficients are our own fits (weighted least squares, reweighted until the
// largest error was least). To be included like kernels/vector16.h.
#pragma once

#include "kernels/vector16.h"

namespace htpipe::kernels::HTPIPE_ISA_NAMESPACE {

HTPIPE_INLINE Vec operator-(const Vec& a) { return with_sign(a, Vec::set(0.0F) - a); }

/// c[0] + c[1] x + c[2] x^2 ...
template <std::size_t kCount>
HTPIPE_INLINE Vec polynomial(const float (&c)[kCount], const Vec& x) {
  Vec sum = Vec::set(c[kCount - 1]);
  for (std::size_t i = kCount - 1; i-- > 0;) sum = fma(sum, x, Vec::set(c[i]));
  return sum;
}

/// e^(x + rest) for a small rest that x cannot hold.
HTPIPE_INLINE Vec exp(const Vec& x, const Vec& rest) {
  // Beyond these bounds the result is 0 or infinite anyway. NaN goes on as the second operand.
  const Vec bounded = min(Vec::set(89.0F), max(Vec::set(-104.0F), x));
  const Vec n = round(bounded * Vec::set(1.44269504F));
  // ln 2 in two parts: the first has few bits, so its multiples are exact.
  Vec r = fma(n, Vec::set(-0.693359375F), bounded);
  r = fma(n, Vec::set(2.12194440e-4F), r) + rest;
  static constexpr float kTerms[] = {0.5F, 0.16666667F, 0.041666254F, 0.008333263F, 0.0013947225F, 0.0001991938F};
  const Vec p = fma(polynomial(kTerms, r), r * r, r) + Vec::set(1.0F);
  // In two steps, since 2^n itself may not be a float.
  const Vec half = round(n * Vec::set(0.5F));
  return scale_by_power(scale_by_power(p, half), n - half);
}
HTPIPE_INLINE Vec exp(const Vec& x) { return exp(x, Vec::zero()); }

/// erf(x) for |x| below 0.95.
HTPIPE_INLINE Vec erf_small(const Vec& x) {
  static constexpr float kTerms[] = {0.12837915F,   -0.37612462F,  0.112814665F,
                                     -0.026753334F, 0.0049731168F, -0.00058867736F};
  return fma(polynomial(kTerms, x * x), x, x);
}

/// erfc(t) for t from 0 up, whose square is `factor` times the square of x: e^(-t^2) times a polynomial of
/// 1 / (1 + 0.4 t). The square counts with all its digits.
HTPIPE_INLINE Vec erfc_positive(const Vec& t, const Vec& x, const Vec& factor) {
  const Vec one = Vec::set(1.0F);
  const Vec u = one / fma(t, Vec::set(0.4F), one);
  static constexpr float kTerms[] = {0.22570622F, 0.22496532F, 0.21480864F,  0.13019463F, 0.27057773F,
                                     -0.281596F,  0.54410696F, -0.49631765F, 0.19695352F, -0.029399361F};
  const Vec square = x * x;
  const Vec rest = fma(x, x, Vec::zero() - square);  // what the rounded square lacks
  return exp((Vec::zero() - square) * factor, (Vec::zero() - rest) * factor) * (polynomial(kTerms, u) * u);
}

HTPIPE_INLINE Vec erf(const Vec& x) {
  const Vec t = abs(x);
  // Above 4 the result is 1; infinity must not meet itself in the square.
  const Vec bounded = min(Vec::set(4.0F), t);
  const Vec large = Vec::set(1.0F) - erfc_positive(bounded, bounded, Vec::set(1.0F));
  return if_nan(x, x, less(t, Vec::set(0.9F), erf_small(x), with_sign(large, x)));
}

/// 1 / (1 + e^-x), and e^x / (1 + e^x) below 0, where that keeps its digits.
HTPIPE_INLINE Vec sigmoid(const Vec& x) {
  const Vec one = Vec::set(1.0F);
  const Vec power = exp(Vec::zero() - abs(x));
  return less(x, Vec::zero(), power, one) / (one + power);
}

HTPIPE_INLINE Vec tanh(const Vec& x) {
  static constexpr float kTerms[] = {0.0F, -0.33333257F, 0.1333106F, -0.053714987F, 0.020569518F, -0.0056343079F};
  const Vec small = fma(polynomial(kTerms, x * x), x, x);
  const Vec one = Vec::set(1.0F);
  const Vec t = abs(x);
  const Vec large = one - Vec::set(2.0F) / (exp(t + t) + one);
  return less(t, Vec::set(0.55F), small, with_sign(large, x));
}

/// x times the normal distribution function. The tail of erfc keeps its digits where 1 + erf would lose them.
HTPIPE_INLINE Vec gelu(const Vec& x) {
  const Vec bounded = min(Vec::set(20.0F), abs(x));
  const Vec t = bounded * Vec::set(0.70710678F);
  const Vec tail = Vec::set(0.5F) * erfc_positive(t, bounded, Vec::set(0.5F));
  const Vec small = Vec::set(0.5F) * fma(x, erf_small(x * Vec::set(0.70710678F)), x);
  const Vec large = less(x, Vec::zero(), x * tail, fma(Vec::zero() - x, tail, x));
  // Far out it is x or -0; of -infinity NaN, as in PyTorch.
  const Vec far = less(x, Vec::zero(), x * Vec::zero(), x);
  return if_nan(x, x, less(t, Vec::set(0.5F), small, less(Vec::set(14.5F), abs(x), far, large)));
}

HTPIPE_INLINE Vec gelu_tanh(const Vec& x) {
  // 0.5 (1 + tanh y) is the sigmoid of 2 y.
  const Vec twice = x * fma(x * x, Vec::set(0.0713548162F), Vec::set(1.59576912F));
  const Vec result = x * sigmoid(twice);
  return if_nan(x, x, less(x, Vec::set(-15.0F), x * Vec::zero(), result));
}

/// x times a gate from 0 at -3 to 1 at 3. Near -3 the sum is exact, so small results keep their digits.
HTPIPE_INLINE Vec hard_swish(const Vec& x) {
  const Vec sum = x + Vec::set(3.0F);
  return x * (min(Vec::set(6.0F), max(Vec::zero(), sum)) * Vec::set(0.16666667F));
}

}  // namespace htpipe::kernels::HTPIPE_ISA_NAMESPACE
