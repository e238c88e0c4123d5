// One implementation of the products per instruction set; gemm.cc picks at run time.
#pragma once

#include "kernels/gemm.h"

namespace htpipe::kernels {

using GemmI16 = void (*)(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m);

void gemm_i16_generic(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m);
void gemm_i16_avx2(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m);
void gemm_i16_avx512(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m);

/// The loop nest around a block function that computes `rows` rows of one column block into `out[rows][16]`.
template <std::int64_t kRows, typename A, typename Packed, typename C, typename Block>
void gemm_blocks(const A* a, std::int64_t stride, const Packed& b, std::int64_t steps_per_block, C* c, std::int64_t m,
                 Block block) {
  const std::int64_t blocks = (b.n + kColumnBlock - 1) / kColumnBlock;
  for (std::int64_t row = 0; row < m; row += kRows) {
    const std::int64_t rows = m - row < kRows ? m - row : kRows;
    for (std::int64_t j = 0; j < blocks; ++j) {
      alignas(64) C out[static_cast<std::size_t>(kRows * kColumnBlock)];
      const A* lines[static_cast<std::size_t>(kRows)];
      for (std::int64_t r = 0; r < kRows; ++r) lines[r] = a + (row + (r < rows ? r : 0)) * stride;
      block(lines, b.data.data() + j * steps_per_block, out);
      const std::int64_t columns = b.n - j * kColumnBlock < kColumnBlock ? b.n - j * kColumnBlock : kColumnBlock;
      for (std::int64_t r = 0; r < rows; ++r) {
        C* target = c + (row + r) * b.n + j * kColumnBlock;
        for (std::int64_t col = 0; col < columns; ++col) target[col] = out[r * kColumnBlock + col];
      }
    }
  }
}

}  // namespace htpipe::kernels
