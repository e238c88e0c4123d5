// Patches gathered by the block against patches gathered by the line.
#include "kernels/gather_f32.h"

#include <gtest/gtest.h>

#include <vector>

namespace htpipe::kernels {
namespace {

/// Every patch of channels [first, first + count), row by row.
std::vector<float> plain_patches(const Window& w, const std::vector<float>& in, std::int64_t first,
                                 std::int64_t count) {
  const std::int64_t patch = w.cells() * count;
  std::vector<float> all(static_cast<std::size_t>(w.n * w.out_pixels() * patch));
  for (std::int64_t line = 0; line < w.n * w.out_lines(); ++line) {
    const float* image = in.data() + line / w.out_lines() * w.in_pixels() * w.channels;
    gather_row(w, image, line % w.out_lines(), first, count, 0.0F, all.data() + line * w.out_w * patch, patch,
               [](float x) { return x; });
  }
  return all;
}

void expect_same(const Window& w, std::int64_t first, std::int64_t count) {
  std::vector<float> in(static_cast<std::size_t>(w.n * w.in_pixels() * w.channels));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i + 1);
  const std::int64_t patch = w.cells() * count;
  const std::vector<float> want = plain_patches(w, in, first, count);
  const std::int64_t all = w.n * w.out_pixels();
  for (const std::int64_t stride : {patch, patch + 40}) {
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{7}, all}) {
      for (const std::int64_t steps : {patch, (patch + 1) / 2, std::int64_t{3}}) {
        for (std::int64_t row = 0; row < all; row += rows) {
          const std::int64_t taken = std::min(rows, all - row);
          for (std::int64_t step = 0; step < patch; step += steps) {
            const std::int64_t part = std::min(steps, patch - step);
            std::vector<float> got(static_cast<std::size_t>((taken - 1) * stride + (stride == patch ? part : stride)));
            gather_patches(w, in.data(), first, count, row, taken, step, part, got.data(), stride);
            for (std::int64_t r = 0; r < taken; ++r) {
              for (std::int64_t i = 0; i < part; ++i) {
                ASSERT_EQ(got[static_cast<std::size_t>(r * stride + i)],
                          want[static_cast<std::size_t>((row + r) * patch + step + i)])
                    << "row " << row + r << " element " << step + i << " of " << patch;
              }
            }
          }
        }
      }
    }
  }
}

Window window(std::int64_t channels, std::int64_t kernel, std::int64_t stride, std::int64_t pad,
              std::int64_t dilation) {
  Window w;
  w.n = 2;
  w.in_h = 7;
  w.in_w = 9;
  w.channels = channels;
  w.kernel_h = kernel;
  w.kernel_w = kernel + 1;
  w.stride_h = w.stride_w = stride;
  w.pad_top = w.pad_left = pad;
  w.dilation_h = w.dilation_w = dilation;
  w.out_h = (w.in_h + 2 * pad - dilation * (w.kernel_h - 1) - 1) / stride + 1;
  w.out_w = (w.in_w + 2 * pad - dilation * (w.kernel_w - 1) - 1) / stride + 1;
  return w;
}

TEST(GatherPatches, AreThoseGatheredByTheLine) {
  for (const std::int64_t channels : {1, 3, 4, 17, 40}) {
    for (const std::int64_t kernel : {1, 2, 3}) {
      for (const std::int64_t stride : {1, 2}) {
        for (const std::int64_t pad : {0, 2}) {
          expect_same(window(channels, kernel, stride, pad, 1), 0, channels);
        }
      }
    }
  }
}

TEST(GatherPatches, TakeDilationGroupsAndDepth) {
  expect_same(window(6, 2, 1, 1, 2), 0, 6);
  expect_same(window(6, 2, 1, 1, 1), 2, 2);
  expect_same(window(6, 2, 2, 2, 2), 3, 3);
  Window deep = window(3, 2, 1, 1, 1);
  deep.in_d = 4;
  deep.kernel_d = 2;
  deep.pad_front = 1;
  deep.out_d = 5;
  expect_same(deep, 0, 3);
}

}  // namespace
}  // namespace htpipe::kernels
