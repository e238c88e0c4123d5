#include "kernels/fixed/packed_bytes.h"

#include <algorithm>

#include "kernels/fixed/fixed_loops.h"

namespace htpipe::kernels {

PackedBytes pack_bytes(const std::int8_t* weights, std::int64_t k, std::int64_t n, std::int64_t row_stride) {
  PackedBytes packed{k, n, {}};
  packed.data.assign(static_cast<std::size_t>(packed.blocks() * packed.block_bytes()), 0);
  for (std::int64_t row = 0; row < k; ++row) {
    const std::int8_t* from = weights + row * row_stride;
    std::int8_t* to = packed.data.data() + row / 4 * 64 + row % 4;
    for (std::int64_t col = 0; col < n; ++col) {
      to[col / kProductBlock * packed.block_bytes() + col % kProductBlock * 4] = from[col];
    }
  }
  return packed;
}

std::vector<Panel> panels_of(std::int64_t blocks) {
  std::vector<Panel> panels;
  if (blocks <= kTallBlocks) return {{0, blocks}};
  const std::int64_t count = (blocks + kProductBlocks - 1) / kProductBlocks;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t first = blocks * i / count;
    panels.push_back({first, blocks * (i + 1) / count - first});
  }
  return panels;
}

std::int64_t tile_rows(std::int64_t blocks) { return blocks <= kTallBlocks ? kTallRows : kWideRows; }

}  // namespace htpipe::kernels
