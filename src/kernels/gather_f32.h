// Patches of a convolution as rows of a matrix, gathered a block at a time.
#pragma once

#include <cstdint>

#include "kernels/window.h"

namespace htpipe::kernels {

/// Elements [step, step + steps) of the patches of `rows` output pixels from `row` on (pixels count over all images):
/// out[rows][steps], rows `stride` apart. A patch is [cells][count], of channels [first, first + count); cells outside
/// the image are 0.
void gather_patches(const Window& window, const float* in, std::int64_t first, std::int64_t count, std::int64_t row,
                    std::int64_t rows, std::int64_t step, std::int64_t steps, float* out, std::int64_t stride);

}  // namespace htpipe::kernels
