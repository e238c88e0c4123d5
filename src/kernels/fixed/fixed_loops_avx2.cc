// AVX2. Products of bytes: pmaddubsw saturates, so both operands are widened to 16 bits in place, even and odd bytes
// apart, and pmaddwd adds exactly.
#include <immintrin.h>

#include "kernels/fixed/fixed_loops_sets.h"

namespace htpipe::kernels {
namespace avx2_loops {
#include "kernels/fixed/fixed_loops_impl.h"

/// Rows whose sums of one block stay in registers together.
constexpr int kRowsAtOnce = 3;

struct Bytes {
  __m256i even, odd;
};
[[gnu::always_inline]] inline Bytes signed_bytes(__m256i x) {
  return {_mm256_srai_epi16(_mm256_slli_epi16(x, 8), 8), _mm256_srai_epi16(x, 8)};
}
[[gnu::always_inline]] inline Bytes unsigned_bytes(__m256i x) {
  return {_mm256_and_si256(x, _mm256_set1_epi16(255)), _mm256_srli_epi16(x, 8)};
}
[[gnu::always_inline]] inline __m256i add_products(__m256i sum, const Bytes& a, const Bytes& b) {
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a.even, b.even));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(a.odd, b.odd));
}

template <int kRows, int kBlocks>
struct Tile {
  static void run(const TileCall& call) {
    for (int block = 0; block < kBlocks; ++block) {
      for (int first = 0; first < kRows; first += kRowsAtOnce) {
        const std::int8_t* w = call.weights + block * call.block_bytes;
        __m256i sums[kRowsAtOnce][2];
        for (auto& row : sums) row[0] = row[1] = _mm256_setzero_si256();
        for (std::int64_t piece = 0; piece < call.pieces; ++piece) {
          const std::uint8_t* rows[kRowsAtOnce];
          for (int r = 0; r < kRowsAtOnce; ++r) rows[r] = call.table[piece * kRows + first + r];
          for (std::int64_t step = 0; step < call.steps; ++step, w += 64) {
            const Bytes low = signed_bytes(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w)));
            const Bytes high = signed_bytes(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(w + 32)));
#pragma GCC unroll 3
            for (int r = 0; r < kRowsAtOnce; ++r) {
              std::int32_t four = 0;
              std::memcpy(&four, rows[r] + 4 * step, sizeof four);
              const Bytes x = unsigned_bytes(_mm256_set1_epi32(four));
              sums[r][0] = add_products(sums[r][0], x, low);
              sums[r][1] = add_products(sums[r][1], x, high);
            }
          }
        }
        for (int r = 0; r < kRowsAtOnce; ++r) {
          std::int32_t* out = call.out + ((first + r) * kBlocks + block) * kProductBlock;
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), sums[r][0]);
          _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 8), sums[r][1]);
        }
      }
    }
  }
};

/// The second row of a pair; the first again (its weights are zero) where the number of taps is odd.
template <typename T>
const T* second_of(const T* const* rows, std::int64_t tap, std::int64_t taps) {
  return rows[tap + 1 < taps ? tap + 1 : tap];
}

void depthwise(const std::uint8_t* const* rows, const std::int8_t* packed, std::int64_t taps, std::int64_t channels,
               std::int32_t* sums) {
  const auto* pairs = reinterpret_cast<const std::int16_t*>(packed);
  std::int64_t c = 0;
  for (; c + 16 <= channels; c += 16) {
    __m256i low = _mm256_setzero_si256();
    __m256i high = _mm256_setzero_si256();
    for (std::int64_t tap = 0; tap < taps; tap += 2) {
      const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[tap] + c));
      const __m128i y = _mm_loadu_si128(reinterpret_cast<const __m128i*>(second_of(rows, tap, taps) + c));
      const auto* w = reinterpret_cast<const __m256i*>(pairs + (tap / 2 * channels + c) * 2);
      low = _mm256_add_epi32(low,
                             _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpacklo_epi8(x, y)), _mm256_loadu_si256(w)));
      high = _mm256_add_epi32(
          high, _mm256_madd_epi16(_mm256_cvtepu8_epi16(_mm_unpackhi_epi8(x, y)), _mm256_loadu_si256(w + 1)));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + c), low);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + c + 8), high);
  }
  depthwise_from<std::uint8_t>(c, rows, pairs, taps, channels, 0, 0, sums);
}

void depthwise_wide(const std::uint16_t* const* rows, const std::int16_t* pairs, std::int64_t taps,
                    std::int64_t channels, std::uint16_t flip, std::int32_t* sums) {
  const __m128i centre = _mm_set1_epi16(static_cast<std::int16_t>(flip ^ 0x8000U));
  std::int64_t c = 0;
  for (; c + 8 <= channels; c += 8) {
    __m256i sum = _mm256_setzero_si256();
    for (std::int64_t tap = 0; tap < taps; tap += 2) {
      const __m128i x = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[tap] + c)), centre);
      const __m128i y =
          _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(second_of(rows, tap, taps) + c)), centre);
      const __m256i xy = _mm256_set_m128i(_mm_unpackhi_epi16(x, y), _mm_unpacklo_epi16(x, y));
      const auto* w = reinterpret_cast<const __m256i*>(pairs + (tap / 2 * channels + c) * 2);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(xy, _mm256_loadu_si256(w)));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums + c), sum);
  }
  depthwise_from<std::uint16_t>(c, rows, pairs, taps, channels, flip, 32768, sums);
}

}  // namespace avx2_loops

FixedLoops fixed_loops_avx2() {
  FixedLoops loops = avx2_loops::plain_loops("avx2");
  avx2_loops::set_tiles<avx2_loops::Tile>(loops);
  loops.depthwise = avx2_loops::depthwise;
  loops.depthwise_wide = avx2_loops::depthwise_wide;
  return loops;
}

}  // namespace htpipe::kernels
