// One implementation of the products per instruction set; gemm.cc picks at run time.
#pragma once

#include "kernels/gemm.h"

namespace htpipe::kernels {

using GemmF32 = void (*)(const float* a, const PanelsF32& b, float* c, std::int64_t m);
using GemmI16 = void (*)(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m);

void gemm_f32_generic(const float* a, const PanelsF32& b, float* c, std::int64_t m);
void gemm_i16_generic(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m);
void gemm_f32_avx2(const float* a, const PanelsF32& b, float* c, std::int64_t m);
void gemm_i16_avx2(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m);
void gemm_f32_avx512(const float* a, const PanelsF32& b, float* c, std::int64_t m);
void gemm_i16_avx512(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m);

/// One tile of c: kRows rows, and a pair of column blocks or the single one at the end.
template <int kRows, typename Tile>
void gemm_tile(const float* a, const PanelsF32& b, float* c, std::int64_t row, std::int64_t column) {
  constexpr std::int64_t kPair = 2 * kColumnBlock;
  alignas(64) float out[kRows * kPair];
  const std::int64_t columns = b.n - column < kPair ? b.n - column : kPair;
  const std::int64_t width = columns > kColumnBlock ? kPair : kColumnBlock;
  if (columns > kColumnBlock) {
    Tile::template run<kRows, 2>(a + row * b.k, b.data + column * b.k, b.k, out);
  } else {
    Tile::template run<kRows, 1>(a + row * b.k, b.data + column * b.k, b.k, out);
  }
  for (std::int64_t r = 0; r < kRows; ++r) {
    float* target = c + (row + r) * b.n + column;
    for (std::int64_t col = 0; col < columns; ++col) target[col] = out[r * width + col];
  }
}

/// As many floats of a as stay in the second-level cache while all columns of b pass by.
inline constexpr std::int64_t kCachedFloats = 1 << 16;

/// The loop nest around Tile::run<rows, blocks>(a, w, k, out), which computes `rows` rows of one or two column blocks
/// into `out[rows][blocks * 16]`. A pair of column blocks stays in the cache for a batch of rows, and those for all
/// columns. The order of k is the tile's alone, so it is the same whatever the loops around it.
template <int kRows, typename Tile>
void gemm_tiles(const float* a, const PanelsF32& b, float* c, std::int64_t m) {
  const std::int64_t fitting = kCachedFloats / (b.k > 0 ? b.k : 1) / kRows * kRows;
  const std::int64_t batch = fitting < kRows ? kRows : fitting;
  for (std::int64_t first = 0; first < m; first += batch) {
    const std::int64_t last = m - first < batch ? m : first + batch;
    for (std::int64_t column = 0; column < b.n; column += 2 * kColumnBlock) {
      std::int64_t row = first;
      for (; last - row >= kRows; row += kRows) gemm_tile<kRows, Tile>(a, b, c, row, column);
      for (; last - row >= 2; row += 2) gemm_tile<2, Tile>(a, b, c, row, column);
      if (row < last) gemm_tile<1, Tile>(a, b, c, row, column);
    }
  }
}

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
