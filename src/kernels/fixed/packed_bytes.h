// Weights of integer products as the tiles read them (fixed_loops.h).
#pragma once

#include <cstdint>
#include <vector>

namespace htpipe::kernels {

/// Weights [k, n] of 8 bits: [blocks of 16 columns][ceil(k / 4)][16][4], zeros where there are none.
struct PackedBytes {
  std::int64_t k = 0;
  std::int64_t n = 0;
  std::vector<std::int8_t> data;

  [[nodiscard]] std::int64_t steps() const { return (k + 3) / 4; }
  [[nodiscard]] std::int64_t blocks() const { return (n + 15) / 16; }
  [[nodiscard]] std::int64_t block_bytes() const { return steps() * 64; }
};

/// `weights` is row-major, rows are `row_stride` apart.
[[nodiscard]] PackedBytes pack_bytes(const std::int8_t* weights, std::int64_t k, std::int64_t n,
                                     std::int64_t row_stride);

/// Blocks that one sweep over the rows computes together.
struct Panel {
  std::int64_t first = 0;
  std::int64_t blocks = 0;
};
/// `blocks` in panels of at most kProductBlocks, as equal as can be.
[[nodiscard]] std::vector<Panel> panels_of(std::int64_t blocks);
/// Rows of a tile for so many blocks.
[[nodiscard]] std::int64_t tile_rows(std::int64_t blocks);

}  // namespace htpipe::kernels
