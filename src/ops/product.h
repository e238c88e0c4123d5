// A matrix product of floats that is shared out among the threads of a call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/gemm_f32.h"
#include "ops/lanes.h"

namespace htpipe::ops {

/// What a kernel that calls share_product needs of Kernel::lane_scratch_bytes.
inline constexpr std::size_t kProductScratch = static_cast<std::size_t>(kernels::kBlockFloats) * sizeof(float);
/// Multiply-adds that are worth a hand-over to another thread.
inline constexpr std::int64_t kProductGrain = std::int64_t{1} << 18;

/// c[m, n] = a · b, see kernels::gemm_f32. Shares out rows; columns where they are more, so that every thread reads its
/// own part of the larger side.
template <typename Fill>
void share_product(const KernelCall& call, std::int64_t m, Fill fill, const kernels::PanelsF32& b, float* c,
                   std::int64_t c_stride, const kernels::Epilogue& epilogue) {
  constexpr std::int64_t kTile = kernels::kRowTile;
  const std::int64_t panels = b.panels();
  const auto items_of = [](std::int64_t macs) { return kProductGrain / std::max<std::int64_t>(macs, 1) + 1; };
  if (b.n > m && panels > 4) {
    // Each part fills blocks of all rows again, so there are no more parts than threads. Tiles take pairs of panels.
    const std::int64_t lanes = call.lanes.count;
    const std::int64_t grain = std::max(items_of(m * b.k * kernels::kPanel), (panels + lanes - 1) / lanes);
    for_parts(call, panels, (grain + 1) / 2 * 2, [&](std::int64_t begin, std::int64_t end, std::byte* scratch) {
      kernels::gemm_f32(fill, b, begin, end, c, c_stride, m, epilogue, reinterpret_cast<float*>(scratch));
    });
    return;
  }
  for_parts(call, (m + kTile - 1) / kTile, items_of(kTile * b.k * b.n),
            [&](std::int64_t begin, std::int64_t end, std::byte* scratch) {
              const std::int64_t first = begin * kTile;
              const auto fill_part = [&](std::int64_t row, std::int64_t rows, std::int64_t step, std::int64_t steps,
                                         float* block) { fill(first + row, rows, step, steps, block); };
              kernels::gemm_f32(fill_part, b, 0, panels, c + first * c_stride, c_stride,
                                std::min(end * kTile, m) - first, epilogue, reinterpret_cast<float*>(scratch));
            });
}

}  // namespace htpipe::ops
