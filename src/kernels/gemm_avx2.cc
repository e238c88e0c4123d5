#include <immintrin.h>

#include <cstring>

#include "kernels/gemm_impl.h"

namespace htpipe::kernels {

void gemm_i16_avx2(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m) {
  const std::int64_t pairs = (b.k + 1) / 2;
  gemm_blocks<4>(a, row_stride_i16(b.k), b, pairs * kColumnBlock * 2, c, m,
                 [pairs](const std::int16_t* const* lines, const std::int16_t* w, std::int32_t* out) {
                   __m256i sum[4][2];
                   for (auto& row : sum) row[0] = row[1] = _mm256_setzero_si256();
                   for (std::int64_t p = 0; p < pairs; ++p) {
                     const auto* columns = reinterpret_cast<const __m256i*>(w + p * kColumnBlock * 2);
                     const __m256i low = _mm256_loadu_si256(columns);
                     const __m256i high = _mm256_loadu_si256(columns + 1);
                     for (int r = 0; r < 4; ++r) {
                       std::int32_t pair = 0;
                       std::memcpy(&pair, lines[r] + 2 * p, sizeof pair);
                       const __m256i x = _mm256_set1_epi32(pair);
                       sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(x, low));
                       sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(x, high));
                     }
                   }
                   for (int r = 0; r < 4; ++r) {
                     auto* target = reinterpret_cast<__m256i*>(out + r * kColumnBlock);
                     _mm256_store_si256(target, sum[r][0]);
                     _mm256_store_si256(target + 1, sum[r][1]);
                   }
                 });
}

}  // namespace htpipe::kernels
