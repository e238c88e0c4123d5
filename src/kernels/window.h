// Sliding windows over channel-last images: shapes, and gathering of patches for the matrix products.
#pragma once

#include <cstdint>
#include <vector>

namespace htpipe::kernels {

/// A 2-D window over [n, in_h, in_w, channels]. Padding at the end follows from the output size.
struct Window {
  std::int64_t n = 1, in_h = 1, in_w = 1, channels = 1;
  std::int64_t out_h = 1, out_w = 1;
  std::int64_t kernel_h = 1, kernel_w = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t pad_top = 0, pad_left = 0;
  std::int64_t dilation_h = 1, dilation_w = 1;

  [[nodiscard]] std::int64_t row_of(std::int64_t out_row, std::int64_t k) const {
    return out_row * stride_h - pad_top + k * dilation_h;
  }
  [[nodiscard]] std::int64_t column_of(std::int64_t out_column, std::int64_t k) const {
    return out_column * stride_w - pad_left + k * dilation_w;
  }
  [[nodiscard]] bool inside(std::int64_t row, std::int64_t column) const {
    return row >= 0 && row < in_h && column >= 0 && column < in_w;
  }
};

/// Gathers the patches of one output row: out[out_w][kernel_h * kernel_w * count] (rows `stride` apart) from channels
/// [first, first + count) of image `image`; `convert` maps an element, `padding` stands for cells outside.
template <typename From, typename To, typename Convert>
void gather_row(const Window& window, const From* image, std::int64_t out_row, std::int64_t first, std::int64_t count,
                To padding, To* out, std::int64_t stride, Convert convert) {
  for (std::int64_t column = 0; column < window.out_w; ++column) {
    To* target = out + column * stride;
    for (std::int64_t kh = 0; kh < window.kernel_h; ++kh) {
      const std::int64_t y = window.row_of(out_row, kh);
      for (std::int64_t kw = 0; kw < window.kernel_w; ++kw, target += count) {
        const std::int64_t x = window.column_of(column, kw);
        if (!window.inside(y, x)) {
          for (std::int64_t c = 0; c < count; ++c) target[c] = padding;
          continue;
        }
        const From* source = image + (y * window.in_w + x) * window.channels + first;
        for (std::int64_t c = 0; c < count; ++c) target[c] = convert(source[c]);
      }
    }
  }
}

}  // namespace htpipe::kernels
