// AVX-512 without VNNI: as AVX2, twice as wide.
#include <immintrin.h>

#include "kernels/fixed/fixed_loops_sets.h"

namespace htpipe::kernels {
namespace avx512_loops {
#include "kernels/fixed/fixed_loops_impl.h"

/// Blocks whose sums stay in registers together.
constexpr int kBlocksAtOnce = 2;

struct Bytes {
  __m512i even, odd;
};
[[gnu::always_inline]] inline Bytes signed_bytes(__m512i x) {
  return {_mm512_srai_epi16(_mm512_slli_epi16(x, 8), 8), _mm512_srai_epi16(x, 8)};
}
[[gnu::always_inline]] inline Bytes unsigned_bytes(__m512i x) {
  return {_mm512_and_si512(x, _mm512_set1_epi16(255)), _mm512_srli_epi16(x, 8)};
}

template <int kRows, int kBlocks>
void columns(const TileCall& call, int first, int width) {
  const std::int8_t* w = call.weights + first * call.block_bytes;
  __m512i sums[kRows][kBlocks];
  for (auto& row : sums) {
    for (auto& part : row) part = _mm512_setzero_si512();
  }
  for (std::int64_t piece = 0; piece < call.pieces; ++piece) {
    const std::uint8_t* rows[kRows];
    for (int r = 0; r < kRows; ++r) rows[r] = call.table[piece * kRows + r];
    for (std::int64_t step = 0; step < call.steps; ++step, w += 64) {
      Bytes weights[kBlocks];
#pragma GCC unroll 2
      for (int j = 0; j < kBlocks; ++j) weights[j] = signed_bytes(_mm512_loadu_si512(w + j * call.block_bytes));
#pragma GCC unroll 12
      for (int r = 0; r < kRows; ++r) {
        std::int32_t four = 0;
        std::memcpy(&four, rows[r] + 4 * step, sizeof four);
        const Bytes x = unsigned_bytes(_mm512_set1_epi32(four));
#pragma GCC unroll 2
        for (int j = 0; j < kBlocks; ++j) {
          sums[r][j] = _mm512_add_epi32(sums[r][j], _mm512_madd_epi16(x.even, weights[j].even));
          sums[r][j] = _mm512_add_epi32(sums[r][j], _mm512_madd_epi16(x.odd, weights[j].odd));
        }
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int j = 0; j < kBlocks; ++j) {
      _mm512_storeu_si512(call.out + (r * width + first + j) * kProductBlock, sums[r][j]);
    }
  }
}

template <int kRows, int kBlocks>
struct Tile {
  static void run(const TileCall& call) {
    int first = 0;
    for (; first + kBlocksAtOnce <= kBlocks; first += kBlocksAtOnce)
      columns<kRows, kBlocksAtOnce>(call, first, kBlocks);
    if (first < kBlocks) columns<kRows, 1>(call, first, kBlocks);
  }
};

}  // namespace avx512_loops

FixedLoops fixed_loops_avx512() {
  FixedLoops loops = avx512_loops::plain_loops("avx512");
  avx512_loops::set_tiles<avx512_loops::Tile>(loops);
  const FixedLoops narrower = fixed_loops_avx2();  // half a vector fits the numbers of channels better
  loops.depthwise = narrower.depthwise;
  loops.depthwise_wide = narrower.depthwise_wide;
  return loops;
}

}  // namespace htpipe::kernels
