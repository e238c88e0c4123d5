// Matrix products of floats: the inner loop of convolutions, linear layers and attention.
// Invariant: each sum is a chain of fused multiply-adds in order of k that begins at 0; bias and clamp follow. So results
// are the same bits for every vector width, every number of threads, and however rows and columns are shared out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

namespace htpipe::kernels {

/// Columns of b lie in panels of this many.
inline constexpr std::int64_t kPanel = 16;

/// A packed right-hand side [k, n] that somebody else owns, padded to whole panels: [panels][k][16].
struct PanelsF32 {
  std::int64_t k = 0;
  std::int64_t n = 0;
  const float* data = nullptr;
  [[nodiscard]] std::int64_t panels() const { return (n + kPanel - 1) / kPanel; }
};
/// The same with its memory.
struct PackedF32 {
  std::int64_t k = 0;
  std::int64_t n = 0;
  std::vector<float> data;
  operator PanelsF32() const { return {k, n, data.data()}; }  // NOLINT(google-explicit-constructor): a view of it
};

/// Floats that a packed [k, n] takes.
[[nodiscard]] std::int64_t packed_count_f32(std::int64_t k, std::int64_t n);
/// Packs element (row, column) = source[row * row_stride + column * column_stride] into `out`. Either stride may be 1:
/// [k, n] as it lies in memory, columns of a wider matrix, or the transpose of [n, k].
void pack_f32(const float* source, std::int64_t k, std::int64_t n, std::int64_t row_stride, std::int64_t column_stride,
              float* out);
/// `weights` is row-major [k, n].
[[nodiscard]] PackedF32 pack_f32(const float* weights, std::int64_t k, std::int64_t n);

/// What follows a finished sum: the bias of its column, then a clamp that passes NaN on.
struct Epilogue {
  const float* bias = nullptr;
  float low = -std::numeric_limits<float>::infinity();
  float high = std::numeric_limits<float>::infinity();
};

/// Rows of c that are computed as one piece; whoever shares rows out cuts at multiples.
inline constexpr std::int64_t kRowTile = 14;
/// A block of a: at most so many rows and steps, rows kBlockStride floats apart (no multiple of a cache's page).
inline constexpr std::int64_t kBlockRows = 8 * kRowTile;
inline constexpr std::int64_t kBlockDepth = 256;
inline constexpr std::int64_t kBlockStride = kBlockDepth + 16;
/// Floats of a block.
inline constexpr std::int64_t kBlockFloats = kBlockRows * kBlockStride;

/// A block of a times a part of b.
struct BlockProduct {
  const float* a;  ///< rows kBlockStride apart
  std::int64_t rows;
  std::int64_t steps;
  const float* panels;        ///< at the first of these steps of the first panel
  std::int64_t panel_stride;  ///< floats from panel to panel
  std::int64_t columns;
  float* c;
  std::int64_t c_stride;
  bool first;            ///< c is not read
  const Epilogue* last;  ///< null before the last steps; its bias begins at the first column
};
void multiply_block(const BlockProduct& product);

/// c[m, columns of panels first to last) of a · b. `fill(row, rows, step, steps, block)` writes that part of a into a
/// block; `block` has room for kBlockFloats. c and the bias point to column 0 of b.
template <typename Fill>
void gemm_f32(Fill fill, const PanelsF32& b, std::int64_t first_panel, std::int64_t last_panel, float* c,
              std::int64_t c_stride, std::int64_t m, const Epilogue& epilogue, float* block) {
  const std::int64_t column = first_panel * kPanel;
  Epilogue own = epilogue;
  if (own.bias != nullptr) own.bias += column;
  for (std::int64_t row = 0; row < m; row += kBlockRows) {
    const std::int64_t rows = std::min(kBlockRows, m - row);
    std::int64_t step = 0;
    do {  // once at least: a sum of nothing is 0
      const std::int64_t steps = std::min(kBlockDepth, b.k - step);
      fill(row, rows, step, steps, block);
      multiply_block({block, rows, steps, b.data + first_panel * b.k * kPanel + step * kPanel, b.k * kPanel,
                      std::min(b.n, last_panel * kPanel) - column, c + row * c_stride + column, c_stride, step == 0,
                      step + steps == b.k ? &own : nullptr});
      step += steps;
    } while (step < b.k);
  }
}

/// Copies `rows` rows of `steps` elements, `stride` apart, into a block.
void copy_rows(const float* source, std::int64_t stride, std::int64_t rows, std::int64_t steps, float* block);

/// Fills blocks from rows that lie `stride` floats apart.
struct RowsF32 {
  const float* data;
  std::int64_t stride;
  void operator()(std::int64_t row, std::int64_t rows, std::int64_t step, std::int64_t steps, float* block) const {
    copy_rows(data + row * stride + step, stride, rows, steps, block);
  }
};

/// c[m, n] = a[m, k] · b in the calling thread; rows of a are `k` apart, rows of c are `n` apart.
void gemm_f32(const float* a, const PanelsF32& b, float* c, std::int64_t m);

}  // namespace htpipe::kernels
