// Plain loops: what the other instruction sets are compared with.
#include "kernels/fixed/fixed_loops_sets.h"

namespace htpipe::kernels {
namespace generic_loops {
#include "kernels/fixed/fixed_loops_impl.h"

template <int kRows, int kBlocks>
struct Tile {
  static void run(const TileCall& call) {
    std::int32_t sums[kRows][kBlocks][kProductBlock] = {};
    const std::int8_t* weights = call.weights;
    for (std::int64_t piece = 0; piece < call.pieces; ++piece) {
      const std::uint8_t* const* rows = call.table + piece * kRows;
      for (std::int64_t step = 0; step < call.steps; ++step, weights += 64) {
        for (int block = 0; block < kBlocks; ++block) {
          const std::int8_t* w = weights + block * call.block_bytes;
          for (int r = 0; r < kRows; ++r) {
            const std::uint8_t* x = rows[r] + 4 * step;
            for (int j = 0; j < kProductBlock; ++j) {
              for (int i = 0; i < 4; ++i) sums[r][block][j] += x[i] * w[4 * j + i];
            }
          }
        }
      }
    }
    std::memcpy(call.out, sums, sizeof sums);
  }
};

void depthwise(const std::uint8_t* const* rows, const std::int8_t* packed, std::int64_t taps, std::int64_t channels,
               std::int32_t* sums) {
  depthwise_from<std::uint8_t>(0, rows, reinterpret_cast<const std::int16_t*>(packed), taps, channels, 0, 0, sums);
}

void depthwise_wide(const std::uint16_t* const* rows, const std::int16_t* pairs, std::int64_t taps,
                    std::int64_t channels, std::uint16_t flip, std::int32_t* sums) {
  depthwise_from<std::uint16_t>(0, rows, pairs, taps, channels, flip, 32768, sums);
}

}  // namespace generic_loops

FixedLoops fixed_loops_generic() {
  FixedLoops loops = generic_loops::plain_loops("generic");
  generic_loops::set_tiles<generic_loops::Tile>(loops);
  loops.depthwise = generic_loops::depthwise;
  loops.depthwise_wide = generic_loops::depthwise_wide;
  return loops;
}

}  // namespace htpipe::kernels
