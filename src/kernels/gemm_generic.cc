// Plain loops: the truth that the other instruction sets are compared with.
#include "kernels/gemm_impl.h"

namespace htpipe::kernels {

namespace {

struct Tile {
  template <int kRows, int kBlocks>
  static void run(const float* a, const float* w, std::int64_t steps, float* out) {
    for (int block = 0; block < kBlocks; ++block, w += steps * kColumnBlock) {
      float sums[kRows][kColumnBlock] = {};
      for (std::int64_t k = 0; k < steps; ++k) {
        for (int r = 0; r < kRows; ++r) {
          for (std::int64_t j = 0; j < kColumnBlock; ++j) sums[r][j] += a[r * steps + k] * w[k * kColumnBlock + j];
        }
      }
      for (int r = 0; r < kRows; ++r) {
        for (std::int64_t j = 0; j < kColumnBlock; ++j) out[(r * kBlocks + block) * kColumnBlock + j] = sums[r][j];
      }
    }
  }
};

}  // namespace

void gemm_f32_generic(const float* a, const PanelsF32& b, float* c, std::int64_t m) { gemm_tiles<2, Tile>(a, b, c, m); }

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
