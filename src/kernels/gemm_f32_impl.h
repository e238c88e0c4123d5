// multiply_block for the instruction set of the including file: tiles of sums that fill its registers.
#pragma once

#include <utility>

#include "kernels/gemm_f32_block.h"
#include "kernels/vector16.h"

namespace htpipe::kernels::HTPIPE_ISA_NAMESPACE {

// Rows of the largest tile, and how many panels a tile of so many rows takes: sums, panels and one element of a must
// fit the registers (32 of 16 floats, 16 of 8 floats); few rows take more panels, lest the adds wait for each other.
#if defined(__AVX512F__)
inline constexpr int kTileRows = 14;
constexpr int panels_for(int rows) { return rows <= 6 ? 4 : 2; }
#elif defined(__AVX2__)
inline constexpr int kTileRows = 6;
constexpr int panels_for(int rows) { return rows <= 3 ? 2 : 1; }
#else
inline constexpr int kTileRows = 2;
constexpr int panels_for(int /*rows*/) { return 1; }
#endif

/// Steps by which panels are fetched ahead: they come from far away, and the hardware stops at every page.
inline constexpr std::int64_t kAhead = 64;

template <int kPanels>
HTPIPE_INLINE void load_sums(const float* c, std::int64_t columns, Vec* sums) {
  for (int p = 0; p < kPanels; ++p, columns -= kWidth) {
    sums[p] = columns >= kWidth ? Vec::load(c + p * kWidth) : load_part(c + p * kWidth, columns, 0.0F);
  }
}

template <int kPanels>
HTPIPE_INLINE void finish(const Epilogue& epilogue, std::int64_t columns, Vec* sums) {
  const Vec low = Vec::set(epilogue.low);
  const Vec high = Vec::set(epilogue.high);
  for (int p = 0; p < kPanels; ++p, columns -= kWidth) {
    if (epilogue.bias != nullptr) {
      const float* bias = epilogue.bias + p * kWidth;
      sums[p] = sums[p] + (columns >= kWidth ? Vec::load(bias) : load_part(bias, columns, 0.0F));
    }
    // Of equal values, and of NaN, max and min give their second operand: the sum.
    sums[p] = min(high, max(low, sums[p]));
  }
}

/// Rows x panels sums. `columns` counts from the first panel; the last panel may be cut.
template <int kRows, int kPanels>
void tile(const BlockProduct& product, const float* a, const float* w, float* c, const Epilogue* last,
          std::int64_t columns) {
  Vec sum[kRows][kPanels];
  for (int r = 0; r < kRows; ++r) {
    if (product.first) {
      for (int p = 0; p < kPanels; ++p) sum[r][p] = Vec::zero();
    } else {
      load_sums<kPanels>(c + r * product.c_stride, columns, sum[r]);
    }
  }
  const std::int64_t stride = product.panel_stride;
  const std::int64_t steps = product.steps;
  for (std::int64_t k = 0; k < steps; ++k) {
    Vec panel[kPanels];
    for (int p = 0; p < kPanels; ++p) {
      panel[p] = Vec::load(w + p * stride + k * kWidth);
      __builtin_prefetch(w + p * stride + (k + kAhead) * kWidth);
    }
    for (int r = 0; r < kRows; ++r) {
      const Vec x = Vec::set(a[r * kBlockStride + k]);
      for (int p = 0; p < kPanels; ++p) sum[r][p] = fma(x, panel[p], sum[r][p]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* target = c + r * product.c_stride;
    if (last != nullptr) finish<kPanels>(*last, columns, sum[r]);
    for (int p = 0; p < kPanels; ++p) {
      const std::int64_t rest = columns - p * kWidth;
      if (rest >= kWidth) {
        sum[r][p].store(target + p * kWidth);
      } else {
        store_part(sum[r][p], target + p * kWidth, rest);
      }
    }
  }
}

using Tile = void (*)(const BlockProduct&, const float*, const float*, float*, const Epilogue*, std::int64_t);

/// The tile of so many rows and at most so many panels; `panels` becomes what it takes.
template <int kRows>
Tile tile_of(std::int64_t& panels) {
  if constexpr (panels_for(kRows) == 4) {
    if (panels >= 4) {
      panels = 4;
      return tile<kRows, 4>;
    }
  }
  if constexpr (panels_for(kRows) >= 2) {
    if (panels >= 2) {
      panels = 2;
      return tile<kRows, 2>;
    }
  }
  panels = 1;
  return tile<kRows, 1>;
}

template <int... kRows>
Tile find_tile(std::int64_t rows, std::int64_t& panels, std::integer_sequence<int, kRows...> /*all*/) {
  using Find = Tile (*)(std::int64_t&);
  static constexpr Find kTable[] = {tile_of<kRows + 1>...};
  return kTable[rows - 1](panels);
}

/// All columns of `count` rows from `row` on whose tiles have `rows` rows.
HTPIPE_INLINE void sweep(const BlockProduct& product, std::int64_t row, std::int64_t count, std::int64_t rows) {
  if (count == 0) return;
  const std::int64_t all = (product.columns + kWidth - 1) / kWidth;
  for (std::int64_t panel = 0, taken = 0; panel < all; panel += taken) {
    taken = all - panel;
    const Tile run = find_tile(rows, taken, std::make_integer_sequence<int, kTileRows>());
    const std::int64_t column = panel * kWidth;
    Epilogue last;
    if (product.last != nullptr) last = *product.last;
    if (last.bias != nullptr) last.bias += column;
    for (std::int64_t r = row; r < row + count; r += rows) {
      run(product, product.a + r * kBlockStride, product.panels + panel * product.panel_stride,
          product.c + r * product.c_stride + column, product.last != nullptr ? &last : nullptr,
          product.columns - column);
    }
  }
}

// Rows are often so short that memcpy would spend its time on being called.
void copy_rows(const float* source, std::int64_t stride, std::int64_t rows, std::int64_t steps, float* block) {
  const std::int64_t whole = steps / kWidth * kWidth;
  for (std::int64_t r = 0; r < rows; ++r, source += stride, block += kBlockStride) {
    for (std::int64_t i = 0; i < whole; i += kWidth) Vec::load(source + i).store(block + i);
    if (whole < steps) store_part(load_part(source + whole, steps - whole, 0.0F), block + whole, steps - whole);
  }
}

void multiply_block(const BlockProduct& product) {
  // Tiles of two neighbouring heights make up all rows.
  const std::int64_t tiles = (product.rows + kTileRows - 1) / kTileRows;
  if (tiles == 0) return;
  const std::int64_t low = product.rows / tiles;
  const std::int64_t higher = product.rows % tiles;
  sweep(product, 0, higher * (low + 1), low + 1);
  sweep(product, higher * (low + 1), (tiles - higher) * low, low);
}

}  // namespace htpipe::kernels::HTPIPE_ISA_NAMESPACE
