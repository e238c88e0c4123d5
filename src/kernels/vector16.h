// Sixteen floats that are computed with at once: one register of AVX-512, two of AVX2, plain loops elsewhere.
// Invariant: every operation is one IEEE operation per element, the same on every instruction set. So code that is
// written once over Vec gives the same bits everywhere.
//
// Only files that are compiled for one instruction set (*_generic.cc, *_avx2.cc, *_avx512.cc) may include it. All is in a
// namespace of the instruction set, lest the linker takes one's functions for another's.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#define HTPIPE_ISA_NAMESPACE avx512
#elif defined(__AVX2__)
#include <immintrin.h>
#define HTPIPE_ISA_NAMESPACE avx2
#else
#define HTPIPE_ISA_NAMESPACE generic
#endif

#define HTPIPE_INLINE [[gnu::always_inline]] inline

namespace htpipe::kernels::HTPIPE_ISA_NAMESPACE {

inline constexpr std::int64_t kWidth = 16;

#if defined(__AVX512F__)

struct Vec {
  __m512 v;
  HTPIPE_INLINE static Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  HTPIPE_INLINE static Vec set(float x) { return {_mm512_set1_ps(x)}; }
  HTPIPE_INLINE static Vec zero() { return {_mm512_setzero_ps()}; }
  HTPIPE_INLINE void store(float* p) const { _mm512_storeu_ps(p, v); }
};
HTPIPE_INLINE Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
HTPIPE_INLINE Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
HTPIPE_INLINE Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
HTPIPE_INLINE Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
/// a * b + c, rounded once.
HTPIPE_INLINE Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
/// a > b ? a : b, and b where one is NaN or both are zeros.
HTPIPE_INLINE Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
/// a < b ? a : b, and b where one is NaN or both are zeros.
HTPIPE_INLINE Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
HTPIPE_INLINE Vec sqrt(Vec a) { return {_mm512_sqrt_ps(a.v)}; }
/// To the nearest whole number, halves to even.
HTPIPE_INLINE Vec round(Vec a) { return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)}; }
HTPIPE_INLINE Vec abs(Vec a) { return {_mm512_abs_ps(a.v)}; }
/// The magnitude of a with the sign of b.
HTPIPE_INLINE Vec with_sign(Vec a, Vec b) {
  const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000U));
  // 0xCA: the first mask picks between the other two.
  return {
      _mm512_castsi512_ps(_mm512_ternarylogic_epi32(sign, _mm512_castps_si512(b.v), _mm512_castps_si512(a.v), 0xCA))};
}
/// a < b ? x : y (y where one is NaN).
HTPIPE_INLINE Vec less(Vec a, Vec b, Vec x, Vec y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ), y.v, x.v)};
}
/// a is NaN ? x : y.
HTPIPE_INLINE Vec if_nan(Vec a, Vec x, Vec y) {
  return {_mm512_mask_blend_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q), y.v, x.v)};
}
/// x * 2^n for a whole n from -126 to 127.
HTPIPE_INLINE Vec scale_by_power(Vec x, Vec n) {
  const __m512i bits = _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n.v), _mm512_set1_epi32(127)), 23);
  return {_mm512_mul_ps(x.v, _mm512_castsi512_ps(bits))};
}

#elif defined(__AVX2__)

struct Vec {
  __m256 low, high;
  HTPIPE_INLINE static Vec load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  HTPIPE_INLINE static Vec set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  HTPIPE_INLINE static Vec zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  HTPIPE_INLINE void store(float* p) const {
    _mm256_storeu_ps(p, low);
    _mm256_storeu_ps(p + 8, high);
  }
};
HTPIPE_INLINE Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
HTPIPE_INLINE Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
HTPIPE_INLINE Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
HTPIPE_INLINE Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
HTPIPE_INLINE Vec fma(Vec a, Vec b, Vec c) {
  return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
HTPIPE_INLINE Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
HTPIPE_INLINE Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)}; }
HTPIPE_INLINE Vec sqrt(Vec a) { return {_mm256_sqrt_ps(a.low), _mm256_sqrt_ps(a.high)}; }
HTPIPE_INLINE Vec round(Vec a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.low, kMode), _mm256_round_ps(a.high, kMode)};
}
HTPIPE_INLINE Vec abs(Vec a) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  return {_mm256_andnot_ps(sign, a.low), _mm256_andnot_ps(sign, a.high)};
}
HTPIPE_INLINE Vec with_sign(Vec a, Vec b) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  return {_mm256_or_ps(_mm256_andnot_ps(sign, a.low), _mm256_and_ps(sign, b.low)),
          _mm256_or_ps(_mm256_andnot_ps(sign, a.high), _mm256_and_ps(sign, b.high))};
}
HTPIPE_INLINE Vec less(Vec a, Vec b, Vec x, Vec y) {
  return {_mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, b.low, _CMP_LT_OQ)),
          _mm256_blendv_ps(y.high, x.high, _mm256_cmp_ps(a.high, b.high, _CMP_LT_OQ))};
}
HTPIPE_INLINE Vec if_nan(Vec a, Vec x, Vec y) {
  return {_mm256_blendv_ps(y.low, x.low, _mm256_cmp_ps(a.low, a.low, _CMP_UNORD_Q)),
          _mm256_blendv_ps(y.high, x.high, _mm256_cmp_ps(a.high, a.high, _CMP_UNORD_Q))};
}
HTPIPE_INLINE __m256 power_of_two(__m256 n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
HTPIPE_INLINE Vec scale_by_power(Vec x, Vec n) {
  return {_mm256_mul_ps(x.low, power_of_two(n.low)), _mm256_mul_ps(x.high, power_of_two(n.high))};
}

#else

struct Vec {
  float v[kWidth];
  HTPIPE_INLINE static Vec load(const float* p) {
    Vec r;
    std::memcpy(r.v, p, sizeof r.v);
    return r;
  }
  HTPIPE_INLINE static Vec set(float x) {
    Vec r;
    for (float& each : r.v) each = x;
    return r;
  }
  HTPIPE_INLINE static Vec zero() { return set(0.0F); }
  HTPIPE_INLINE void store(float* p) const { std::memcpy(p, v, sizeof v); }
};
template <typename Function>
HTPIPE_INLINE Vec each(Function function) {
  Vec r;
  for (std::int64_t i = 0; i < kWidth; ++i) r.v[i] = function(i);
  return r;
}
HTPIPE_INLINE Vec operator+(const Vec& a, const Vec& b) {
  return each([&](std::int64_t i) { return a.v[i] + b.v[i]; });
}
HTPIPE_INLINE Vec operator-(const Vec& a, const Vec& b) {
  return each([&](std::int64_t i) { return a.v[i] - b.v[i]; });
}
HTPIPE_INLINE Vec operator*(const Vec& a, const Vec& b) {
  return each([&](std::int64_t i) { return a.v[i] * b.v[i]; });
}
HTPIPE_INLINE Vec operator/(const Vec& a, const Vec& b) {
  return each([&](std::int64_t i) { return a.v[i] / b.v[i]; });
}
HTPIPE_INLINE Vec fma(const Vec& a, const Vec& b, const Vec& c) {
  return each([&](std::int64_t i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}
HTPIPE_INLINE Vec max(const Vec& a, const Vec& b) {
  return each([&](std::int64_t i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
HTPIPE_INLINE Vec min(const Vec& a, const Vec& b) {
  return each([&](std::int64_t i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
HTPIPE_INLINE Vec sqrt(const Vec& a) {
  return each([&](std::int64_t i) { return std::sqrt(a.v[i]); });
}
HTPIPE_INLINE Vec round(const Vec& a) {
  return each([&](std::int64_t i) { return std::nearbyint(a.v[i]); });
}
HTPIPE_INLINE Vec abs(const Vec& a) {
  return each([&](std::int64_t i) { return std::fabs(a.v[i]); });
}
HTPIPE_INLINE Vec with_sign(const Vec& a, const Vec& b) {
  return each([&](std::int64_t i) { return std::copysign(a.v[i], b.v[i]); });
}
HTPIPE_INLINE Vec less(const Vec& a, const Vec& b, const Vec& x, const Vec& y) {
  return each([&](std::int64_t i) { return a.v[i] < b.v[i] ? x.v[i] : y.v[i]; });
}
HTPIPE_INLINE Vec if_nan(const Vec& a, const Vec& x, const Vec& y) {
  return each([&](std::int64_t i) { return std::isnan(a.v[i]) ? x.v[i] : y.v[i]; });
}
HTPIPE_INLINE Vec scale_by_power(const Vec& x, const Vec& n) {
  return each([&](std::int64_t i) {
    // The vector conversions give the lowest integer for what does not fit.
    const bool fits = n.v[i] >= -256.0F && n.v[i] <= 256.0F;
    const std::uint32_t whole = fits ? static_cast<std::uint32_t>(static_cast<std::int32_t>(n.v[i])) : 0x80000000U;
    return x.v[i] * std::bit_cast<float>((whole + 127U) << 23U);
  });
}

#endif

/// The sum of the sixteen in one fixed tree: halves, quarters, ...
HTPIPE_INLINE float fold_sum(const Vec& a) {
  float part[kWidth];
  a.store(part);
  for (std::int64_t half = kWidth / 2; half > 0; half /= 2) {
    for (std::int64_t i = 0; i < half; ++i) part[i] += part[i + half];
  }
  return part[0];
}
HTPIPE_INLINE float fold_max(const Vec& a) {
  float part[kWidth];
  a.store(part);
  for (std::int64_t half = kWidth / 2; half > 0; half /= 2) {
    for (std::int64_t i = 0; i < half; ++i) part[i] = part[i] > part[i + half] ? part[i] : part[i + half];
  }
  return part[0];
}

/// The first `count` (0 to 16) of the elements at `p`; `rest` stands for the others.
HTPIPE_INLINE Vec load_part(const float* p, std::int64_t count, float rest) {
#if defined(__AVX512F__)
  return {_mm512_mask_loadu_ps(_mm512_set1_ps(rest), static_cast<__mmask16>((1U << count) - 1U), p)};
#else
  float part[kWidth];
  for (std::int64_t i = 0; i < kWidth; ++i) part[i] = i < count ? p[i] : rest;
  return Vec::load(part);
#endif
}
HTPIPE_INLINE void store_part(const Vec& a, float* p, std::int64_t count) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1U << count) - 1U), a.v);
#else
  float part[kWidth];
  a.store(part);
  for (std::int64_t i = 0; i < count; ++i) p[i] = part[i];
#endif
}

}  // namespace htpipe::kernels::HTPIPE_ISA_NAMESPACE
