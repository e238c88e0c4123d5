// run_window_line for the instruction set of the including file.
#pragma once

#include "kernels/vector16.h"
#include "kernels/window_f32.h"

namespace htpipe::kernels::HTPIPE_ISA_NAMESPACE {

// Outputs whose sums fit the registers beside the taps.
#if defined(__AVX512F__)
inline constexpr std::int64_t kPixels = 8;
#elif defined(__AVX2__)
inline constexpr std::int64_t kPixels = 4;
#else
inline constexpr std::int64_t kPixels = 1;
#endif

template <WindowSum kSum>
HTPIPE_INLINE Vec start() {
  return Vec::set(kSum == WindowSum::kMaximum ? -std::numeric_limits<float>::infinity() : 0.0F);
}

template <WindowSum kSum>
HTPIPE_INLINE Vec add(const Vec& sum, const Vec& x, const Vec& tap) {
  if constexpr (kSum == WindowSum::kProducts) return fma(x, tap, sum);
  if constexpr (kSum == WindowSum::kSum) return sum + x;
  return if_nan(x, x, max(x, sum));
}

/// The cells that the windows of neighbouring outputs have inside the image: slices x rows x columns of the kernel.
struct Cells {
  std::int64_t slices, rows, columns;
  std::int64_t slice_step, row_step, column_step;  ///< floats between them in the image
  std::int64_t slice_taps, row_taps;               ///< floats between them among the taps
  const float* source;                             ///< the first output's first cell
  const float* taps;
};

/// `kCount` neighbouring outputs, all channels: whole vectors, then a part of one.
template <WindowSum kSum, std::int64_t kCount>
HTPIPE_INLINE void outputs(const Cells& cells, std::int64_t channels, std::int64_t pixel, const Epilogue& epilogue,
                           float* out) {
  const Vec low = Vec::set(epilogue.low);
  const Vec high = Vec::set(epilogue.high);
  const auto vector = [&](std::int64_t c, auto load, auto store) {
    Vec sum[kCount];
    for (Vec& each : sum) each = start<kSum>();
    for (std::int64_t d = 0; d < cells.slices; ++d) {
      for (std::int64_t h = 0; h < cells.rows; ++h) {
        const float* source = cells.source + d * cells.slice_step + h * cells.row_step + c;
        const float* taps = cells.taps + d * cells.slice_taps + h * cells.row_taps + c;
        for (std::int64_t k = 0; k < cells.columns; ++k, source += cells.column_step) {
          Vec tap = Vec::zero();
          if constexpr (kSum == WindowSum::kProducts) tap = load(taps + k * channels);
          for (std::int64_t p = 0; p < kCount; ++p) sum[p] = add<kSum>(sum[p], load(source + p * pixel), tap);
        }
      }
    }
    for (std::int64_t p = 0; p < kCount; ++p) {
      if constexpr (kSum == WindowSum::kProducts) {
        if (epilogue.bias != nullptr) sum[p] = sum[p] + load(epilogue.bias + c);
        sum[p] = min(high, max(low, sum[p]));
      }
      store(sum[p], out + p * channels + c);
    }
  };
  std::int64_t c = 0;
  for (; channels - c >= kWidth; c += kWidth) {
    vector(c, [](const float* p) { return Vec::load(p); }, [](const Vec& v, float* p) { v.store(p); });
  }
  const std::int64_t rest = channels - c;
  if (rest == 0) return;
  vector(
      c, [rest](const float* p) { return load_part(p, rest, 0.0F); },
      [rest](const Vec& v, float* p) { store_part(v, p, rest); });
}

struct Range {
  std::int64_t first;
  std::int64_t last;  ///< behind the last one
};

/// Cells of a kernel along one axis that lie inside the image, for a window that begins at `begin`.
HTPIPE_INLINE Range inside(std::int64_t begin, std::int64_t kernel, std::int64_t dilation, std::int64_t in) {
  Range range = {0, kernel};
  while (range.first < kernel && begin + range.first * dilation < 0) ++range.first;
  while (range.last > range.first && begin + (range.last - 1) * dilation >= in) --range.last;
  return range;
}

/// As many outputs at once as `room` allows, kCount at most; returns how many.
template <WindowSum kSum, std::int64_t kCount>
HTPIPE_INLINE std::int64_t some_outputs(const Cells& cells, std::int64_t channels, std::int64_t pixel,
                                        const Epilogue& epilogue, std::int64_t room, float* out) {
  if constexpr (kCount > 1) {
    if (room < kCount) return some_outputs<kSum, kCount / 2>(cells, channels, pixel, epilogue, room, out);
  }
  outputs<kSum, kCount>(cells, channels, pixel, epilogue, out);
  return kCount;
}

template <WindowSum kSum>
void run_line(const WindowLine& job) {
  const Window& w = *job.window;
  const std::int64_t channels = w.channels;
  const std::int64_t z = w.slice_of(job.line / w.out_h, 0);
  const std::int64_t y = w.row_of(job.line % w.out_h, 0);
  const Range slices = inside(z, w.kernel_d, w.dilation_d, w.in_d);
  const Range rows = inside(y, w.kernel_h, w.dilation_h, w.in_h);
  Cells cells = {};
  cells.slices = slices.last - slices.first;
  cells.rows = rows.last - rows.first;
  cells.row_step = w.dilation_h * w.in_w * channels;
  cells.slice_step = w.dilation_d * w.in_h * w.in_w * channels;
  cells.column_step = w.dilation_w * channels;
  cells.row_taps = w.kernel_w * channels;
  cells.slice_taps = w.kernel_h * cells.row_taps;
  const std::int64_t line = ((z + slices.first * w.dilation_d) * w.in_h + y + rows.first * w.dilation_h) * w.in_w;
  const std::int64_t first_tap = (slices.first * w.kernel_h + rows.first) * w.kernel_w;
  for (std::int64_t x = 0; x < w.out_w;) {
    const std::int64_t column = w.column_of(x, 0);
    const Range columns = inside(column, w.kernel_w, w.dilation_w, w.in_w);
    cells.columns = columns.last - columns.first;
    cells.source = job.image + (line + column + columns.first * w.dilation_w) * channels;
    if (kSum == WindowSum::kProducts) cells.taps = job.taps + (first_tap + columns.first) * channels;
    // Outputs from here on whose windows are whole.
    std::int64_t room = 1;
    if (cells.columns == w.kernel_w) {
      const std::int64_t left = w.in_w - 1 - w.column_of(x, w.kernel_w - 1);
      room = left / w.stride_w + 1 < w.out_w - x ? left / w.stride_w + 1 : w.out_w - x;
    }
    x +=
        some_outputs<kSum, kPixels>(cells, channels, w.stride_w * channels, job.epilogue, room, job.out + x * channels);
  }
}

void run_window_line(const WindowLine& line) {
  switch (line.sum) {
    case WindowSum::kProducts:
      return run_line<WindowSum::kProducts>(line);
    case WindowSum::kSum:
      return run_line<WindowSum::kSum>(line);
    case WindowSum::kMaximum:
      return run_line<WindowSum::kMaximum>(line);
  }
}

}  // namespace htpipe::kernels::HTPIPE_ISA_NAMESPACE
