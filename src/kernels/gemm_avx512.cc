#include <immintrin.h>

#include <cstring>

#include "kernels/gemm_impl.h"

namespace htpipe::kernels {

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
