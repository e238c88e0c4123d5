#include <immintrin.h>

#include <cstring>

#include "kernels/gemm_impl.h"

namespace htpipe::kernels {

namespace {

/// 8 x 32 sums are sixteen of 32 registers: two loads of b and eight of a feed 16 multiplications and additions.
struct Tile {
  template <int kRows, int kBlocks>
  static void run(const float* a, const float* w, std::int64_t steps, float* out) {
    const float* second = w + (kBlocks - 1) * steps * kColumnBlock;
    __m512 sum[kRows][kBlocks];
    for (auto& row : sum) {
      for (auto& part : row) part = _mm512_setzero_ps();
    }
    for (std::int64_t k = 0; k < steps; ++k) {
      const __m512 columns = _mm512_loadu_ps(w + k * kColumnBlock);
      const __m512 more = _mm512_loadu_ps(second + k * kColumnBlock);
      for (int r = 0; r < kRows; ++r) {
        const __m512 x = _mm512_set1_ps(a[r * steps + k]);
        sum[r][0] = _mm512_add_ps(sum[r][0], _mm512_mul_ps(x, columns));
        if constexpr (kBlocks == 2) sum[r][1] = _mm512_add_ps(sum[r][1], _mm512_mul_ps(x, more));
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int block = 0; block < kBlocks; ++block) {
        _mm512_store_ps(out + (r * kBlocks + block) * kColumnBlock, sum[r][block]);
      }
    }
  }
};

}  // namespace

void gemm_f32_avx512(const float* a, const PanelsF32& b, float* c, std::int64_t m) { gemm_tiles<8, Tile>(a, b, c, m); }

void gemm_i16_avx512(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m) {
  const std::int64_t pairs = (b.k + 1) / 2;
  gemm_blocks<8>(a, row_stride_i16(b.k), b, pairs * kColumnBlock * 2, c, m,
                 [pairs](const std::int16_t* const* lines, const std::int16_t* w, std::int32_t* out) {
                   __m512i sum[8];
                   for (auto& row : sum) row = _mm512_setzero_si512();
                   for (std::int64_t p = 0; p < pairs; ++p) {
                     const __m512i columns = _mm512_loadu_si512(w + p * kColumnBlock * 2);
                     for (int r = 0; r < 8; ++r) {
                       std::int32_t pair = 0;
                       std::memcpy(&pair, lines[r] + 2 * p, sizeof pair);
                       sum[r] = _mm512_add_epi32(sum[r], _mm512_madd_epi16(_mm512_set1_epi32(pair), columns));
                     }
                   }
                   for (int r = 0; r < 8; ++r) _mm512_store_si512(out + r * kColumnBlock, sum[r]);
                 });
}

}  // namespace htpipe::kernels
