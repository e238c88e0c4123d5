#include "kernels/gather_f32.h"

#include <algorithm>
#include <cstring>

namespace htpipe::kernels {
namespace {

/// memcpy whose call costs more than the copy of a few channels.
void copy(const float* from, float* to, std::int64_t count) {
  if (count >= 32) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  std::int64_t done = 0;
  for (; count - done >= 4; done += 4) std::memcpy(to + done, from + done, 4 * sizeof(float));
  if (done == count) return;
  if (count >= 4) {
    std::memcpy(to + count - 4, from + count - 4, 4 * sizeof(float));
    return;
  }
  for (; done < count; ++done) to[done] = from[done];
}

void clear(float* to, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) to[i] = 0.0F;
}

struct Part {
  std::int64_t begin;
  std::int64_t end;
};

/// Elements [part.begin, part.end) of one line of a patch, [kernel_w][count], whose input line is `line`.
float* gather_line(const Window& w, const float* line, std::int64_t x, std::int64_t first, std::int64_t count,
                   Part part, float* out) {
  if (w.dilation_w == 1 && count == w.channels) {  // neighbours in the input
    const std::int64_t low = std::clamp(-x * count, part.begin, part.end);
    const std::int64_t high = std::clamp((w.in_w - x) * count, low, part.end);
    clear(out, low - part.begin);
    copy(line + x * count + low, out + low - part.begin, high - low);
    clear(out + high - part.begin, part.end - high);
    return out + part.end - part.begin;
  }
  for (std::int64_t at = part.begin; at < part.end;) {
    const std::int64_t tap = at / count;
    const std::int64_t end = std::min(part.end, (tap + 1) * count);
    const std::int64_t column = x + tap * w.dilation_w;
    if (column >= 0 && column < w.in_w) {
      copy(line + column * w.channels + first + at - tap * count, out, end - at);
    } else {
      clear(out, end - at);
    }
    out += end - at;
    at = end;
  }
  return out;
}

/// Whole patches of short lines inside the image: each line is copied as kRun floats, of which the next line overwrites
/// what is too much. Returns false where that would reach over the image or the row.
template <std::int64_t kRun>
bool copy_short_lines(const Window& w, const float* source, const float* end, float* out, const float* out_end) {
  const std::int64_t length = w.kernel_w * w.channels;
  const std::int64_t line = w.dilation_h * w.in_w * w.channels;
  if (source + (w.kernel_h - 1) * line + kRun > end || out + (w.kernel_h - 1) * length + kRun > out_end) return false;
  for (std::int64_t kh = 0; kh < w.kernel_h; ++kh) {
    std::memcpy(out + kh * length, source + kh * line, kRun * sizeof(float));
  }
  return true;
}

}  // namespace

void gather_patches(const Window& w, const float* in, std::int64_t first, std::int64_t count, std::int64_t row,
                    std::int64_t rows, std::int64_t step, std::int64_t steps, float* out, std::int64_t stride) {
  const std::int64_t length = w.kernel_w * count;
  if (length == 0 || steps == 0) return;
  // Images of few channels have short lines, for which the general way has too many questions to ask.
  const bool is_short = length <= 32 && w.kernel_d == 1 && w.dilation_w == 1 && count == w.channels && step == 0 &&
                        steps == length * w.kernel_h;
  const float* end = in + w.n * w.in_pixels() * w.channels;
  std::int64_t column = row % w.out_w;
  std::int64_t line = row / w.out_w;
  for (std::int64_t r = 0; r < rows; ++r, out += stride) {
    const float* image = in + line / w.out_lines() * w.in_pixels() * w.channels;
    const std::int64_t out_slice = line % w.out_lines() / w.out_h;
    const std::int64_t out_row = line % w.out_h;
    const std::int64_t x = w.column_of(column, 0);
    if (++column == w.out_w) {
      column = 0;
      ++line;
    }
    const std::int64_t top = w.row_of(out_row, 0);
    if (is_short && w.inside(top, x) && w.inside(w.row_of(out_row, w.kernel_h - 1), x + w.kernel_w - 1)) {
      const float* source = image + (top * w.in_w + x) * w.channels;
      if (length <= 16 ? copy_short_lines<16>(w, source, end, out, out + stride)
                       : copy_short_lines<32>(w, source, end, out, out + stride)) {
        continue;
      }
    }
    float* target = out;
    for (std::int64_t k = step / length; k * length < step + steps; ++k) {
      const Part part = {std::max(step - k * length, std::int64_t{0}), std::min(step + steps - k * length, length)};
      const std::int64_t z = w.slice_of(out_slice, k / w.kernel_h);
      const std::int64_t y = w.row_of(out_row, k % w.kernel_h);
      if (w.inside(z, y, 0)) {
        target = gather_line(w, image + (z * w.in_h + y) * w.in_w * w.channels, x, first, count, part, target);
      } else {
        clear(target, part.end - part.begin);
        target += part.end - part.begin;
      }
    }
  }
}

}  // namespace htpipe::kernels
