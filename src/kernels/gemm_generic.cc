// Plain loops: the truth that the other instruction sets are compared with.
#include "kernels/gemm_impl.h"

namespace htpipe::kernels {

void gemm_i16_generic(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m) {
  const std::int64_t pairs = (b.k + 1) / 2;
  gemm_blocks<1>(a, row_stride_i16(b.k), b, pairs * kColumnBlock * 2, c, m,
                 [pairs](const std::int16_t* const* lines, const std::int16_t* w, std::int32_t* out) {
                   for (std::int64_t j = 0; j < kColumnBlock; ++j) out[j] = 0;
                   for (std::int64_t p = 0; p < pairs; ++p) {
                     for (std::int64_t j = 0; j < kColumnBlock; ++j) {
                       const std::int16_t* pair = w + (p * kColumnBlock + j) * 2;
                       out[j] += lines[0][2 * p] * pair[0] + lines[0][2 * p + 1] * pair[1];
                     }
                   }
                 });
}

}  // namespace htpipe::kernels
