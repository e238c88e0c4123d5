// Sliding windows over channel-last images: shapes, and gathering of patches for the matrix products.
#pragma once

#include <cstdint>
#include <vector>

namespace htpipe::kernels {

/// A window over [n, in_d, in_h, in_w, channels]; images without depth have one slice. Padding at the end follows from
/// the output size.
struct Window {
  std::int64_t n = 1, in_d = 1, in_h = 1, in_w = 1, channels = 1;
  std::int64_t out_d = 1, out_h = 1, out_w = 1;
  std::int64_t kernel_d = 1, kernel_h = 1, kernel_w = 1;
  std::int64_t stride_d = 1, stride_h = 1, stride_w = 1;
  std::int64_t pad_front = 0, pad_top = 0, pad_left = 0;
  std::int64_t dilation_d = 1, dilation_h = 1, dilation_w = 1;

  [[nodiscard]] std::int64_t slice_of(std::int64_t out_slice, std::int64_t k) const {
    return out_slice * stride_d - pad_front + k * dilation_d;
  }
  [[nodiscard]] std::int64_t row_of(std::int64_t out_row, std::int64_t k) const {
    return out_row * stride_h - pad_top + k * dilation_h;
  }
  [[nodiscard]] std::int64_t column_of(std::int64_t out_column, std::int64_t k) const {
    return out_column * stride_w - pad_left + k * dilation_w;
  }
  [[nodiscard]] bool inside(std::int64_t row, std::int64_t column) const {
    return row >= 0 && row < in_h && column >= 0 && column < in_w;
  }
  [[nodiscard]] bool inside(std::int64_t slice, std::int64_t row, std::int64_t column) const {
    return slice >= 0 && slice < in_d && inside(row, column);
  }
  /// Pixels of an image, output rows of an image, cells of the window.
  [[nodiscard]] std::int64_t in_pixels() const { return in_d * in_h * in_w; }
  [[nodiscard]] std::int64_t out_pixels() const { return out_d * out_h * out_w; }
  [[nodiscard]] std::int64_t out_lines() const { return out_d * out_h; }
  [[nodiscard]] std::int64_t cells() const { return kernel_d * kernel_h * kernel_w; }
  /// True when every output pixel sees just the input pixel at the same place.
  [[nodiscard]] bool is_pointwise() const {
    return cells() == 1 && in_d == out_d && in_h == out_h && in_w == out_w && stride_d == 1 && stride_h == 1 &&
           stride_w == 1 && pad_front == 0 && pad_top == 0 && pad_left == 0;
  }
};

/// Gathers the patches of one output line (a row of a slice; rows of later slices count on):
/// out[out_w][cells * count] (rows `stride` apart) from channels [first, first + count) of `image`; `convert` maps an
/// element, `padding` stands for cells outside.
template <typename From, typename To, typename Convert>
void gather_row(const Window& window, const From* image, std::int64_t line, std::int64_t first, std::int64_t count,
                To padding, To* out, std::int64_t stride, Convert convert) {
  const std::int64_t out_slice = line / window.out_h;
  const std::int64_t out_row = line % window.out_h;
  for (std::int64_t column = 0; column < window.out_w; ++column) {
    To* target = out + column * stride;
    for (std::int64_t kd = 0; kd < window.kernel_d; ++kd) {
      const std::int64_t z = window.slice_of(out_slice, kd);
      for (std::int64_t kh = 0; kh < window.kernel_h; ++kh) {
        const std::int64_t y = window.row_of(out_row, kh);
        for (std::int64_t kw = 0; kw < window.kernel_w; ++kw, target += count) {
          const std::int64_t x = window.column_of(column, kw);
          if (!window.inside(z, y, x)) {
            for (std::int64_t c = 0; c < count; ++c) target[c] = padding;
            continue;
          }
          const From* source = image + ((z * window.in_h + y) * window.in_w + x) * window.channels + first;
          for (std::int64_t c = 0; c < count; ++c) target[c] = convert(source[c]);
        }
      }
    }
  }
}

/// For every output pixel in order: start(out_pixel), then cell(out_pixel, in_pixel, tap) for each cell of its window
/// that lies inside the image, in the order of the kernel, then done(out_pixel, cells inside). Pixels count over all
/// images.
template <typename Start, typename Cell, typename Done>
void for_each_pixel(const Window& w, Start start, Cell cell, Done done) {
  std::int64_t out_pixel = 0;
  for (std::int64_t image = 0; image < w.n; ++image) {
    for (std::int64_t line = 0; line < w.out_lines(); ++line) {
      for (std::int64_t column = 0; column < w.out_w; ++column, ++out_pixel) {
        start(out_pixel);
        std::int64_t inside = 0;
        std::int64_t tap = 0;
        for (std::int64_t kd = 0; kd < w.kernel_d; ++kd) {
          const std::int64_t z = w.slice_of(line / w.out_h, kd);
          for (std::int64_t kh = 0; kh < w.kernel_h; ++kh) {
            const std::int64_t y = w.row_of(line % w.out_h, kh);
            for (std::int64_t kw = 0; kw < w.kernel_w; ++kw, ++tap) {
              const std::int64_t x = w.column_of(column, kw);
              if (!w.inside(z, y, x)) continue;
              ++inside;
              cell(out_pixel, image * w.in_pixels() + (z * w.in_h + y) * w.in_w + x, tap);
            }
          }
        }
        done(out_pixel, inside);
      }
    }
  }
}

}  // namespace htpipe::kernels
