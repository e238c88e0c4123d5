#include "ops/fixed_depthwise.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels/fixed/fixed_loops.h"
#include "ops/lanes.h"

namespace htpipe::ops {
namespace {

/// Outputs that are worth a hand-over to another thread.
constexpr std::int64_t kWorthwhile = 1 << 14;

std::size_t aligned(std::int64_t bytes) { return static_cast<std::size_t>((bytes + 63) / 64 * 64); }

}  // namespace

FixedDepthwise::FixedDepthwise(const kernels::Window& window, const kernels::Grid& input, DType dtype,
                               const std::vector<std::int16_t>& taps, const kernels::ConvRequant& requant)
    : window_(window), dtype_(dtype) {
  const auto channels = static_cast<std::size_t>(window.channels);
  std::vector<std::int64_t> corrections(channels, 0);
  std::int64_t largest = 0;
  for (std::size_t c = 0; c < channels; ++c) {
    std::int64_t sum = 0;
    std::int64_t size = 0;
    for (std::size_t i = c; i < taps.size(); i += channels) {
      sum += taps[i];
      size += std::abs(taps[i]);
    }
    largest = std::max(largest, size);
    // 16-bit inputs are multiplied less 32768.
    const std::int64_t centre = requant.uncentred() ? 0 : input.zero;
    corrections[c] = (centre - (input.wide() ? 32768 : 0)) * sum;
  }
  kernels::RowRequant::Sums sums;
  sums.drop = requant.uncentred() ? 8 : 0;
  sums.corrections = corrections;
  sums.reach = ((input.wide() ? 32768 : 256) >> sums.drop) * largest + 1;
  requant_ = kernels::RowRequant(requant, sums);

  const std::vector<std::int8_t> weights(taps.begin(), taps.end());
  const kernels::FixedLoops& loops = kernels::fixed_loops();
  const std::int64_t cells = window.cells();
  if (!input.wide()) {
    packed_.resize(static_cast<std::size_t>(loops.depthwise_bytes(cells, window.channels)));
    loops.pack_depthwise(weights.data(), cells, window.channels, packed_.data());
    padding_.assign(channels / 2 + 1, static_cast<std::uint16_t>(input.zero * 257));
  } else {
    pairs_.resize(static_cast<std::size_t>((cells + 1) / 2 * 2) * channels);
    for (std::size_t tap = 0; tap < static_cast<std::size_t>(cells); ++tap) {
      for (std::size_t c = 0; c < channels; ++c) {
        pairs_[(tap / 2 * channels + c) * 2 + tap % 2] = weights[tap * channels + c];
      }
    }
    padding_.assign(channels, static_cast<std::uint16_t>(input.zero - input.offset));
  }
}

std::size_t FixedDepthwise::scratch_bytes() const {
  // The unsigned view of signed bytes, one image at a time.
  return dtype_ == DType::kI8 ? static_cast<std::size_t>(window_.in_pixels() * window_.channels) : 0;
}

std::size_t FixedDepthwise::lane_scratch_bytes() const {
  const auto pointer = static_cast<std::int64_t>(sizeof(void*));
  const auto sum = static_cast<std::int64_t>(sizeof(std::int32_t));
  return 2 * aligned(window_.cells() * pointer) + aligned((window_.channels + 63) / 64 * 64 * sum);
}

void FixedDepthwise::run(const KernelCall& call) const {
  const std::int64_t in_count = window_.in_pixels() * window_.channels;
  const std::int64_t out_count = window_.out_pixels() * window_.channels;
  const std::int64_t line = std::max<std::int64_t>(window_.out_w * window_.channels, 1);
  const std::int64_t grain = (kWorthwhile + line - 1) / line;
  for (std::int64_t image = 0; image < window_.n; ++image) {
    const auto each_line = [&](const auto* in, auto* out) {
      for_parts(call, window_.out_h, grain,
                [&](std::int64_t begin, std::int64_t end, std::byte* lane) { run_lines(in, out, begin, end, lane); });
    };
    if (size_of(dtype_) == 2) {
      each_line(call.in<std::uint16_t>(0) + image * in_count, call.out<std::uint16_t>(0) + image * out_count);
      continue;
    }
    const std::uint8_t* in = call.in<std::uint8_t>(0) + image * in_count;
    if (dtype_ == DType::kI8) {
      auto* flipped = reinterpret_cast<std::uint8_t*>(call.scratch);
      for_parts(call, in_count, 1 << 16, [&](std::int64_t begin, std::int64_t end, std::byte*) {
        kernels::fixed_loops().flip_bytes(in + begin, 128, end - begin, flipped + begin);
      });
      in = flipped;
    }
    each_line(in, call.out<std::uint8_t>(0) + image * out_count);
  }
}

void FixedDepthwise::add_up(const std::uint8_t* const* rows, std::int32_t* sums) const {
  kernels::fixed_loops().depthwise(rows, packed_.data(), window_.cells(), window_.channels, sums);
}
void FixedDepthwise::add_up(const std::uint16_t* const* rows, std::int32_t* sums) const {
  kernels::fixed_loops().depthwise_wide(rows, pairs_.data(), window_.cells(), window_.channels,
                                        dtype_ == DType::kI16 ? 32768 : 0, sums);
}

/// Pixels at `rows` whose taps advance together.
void FixedDepthwise::run_pixels(const std::uint8_t** rows, const std::int64_t* advance, std::int64_t pixels,
                                std::int32_t* sums, std::uint8_t* out) const {
  const kernels::RowConstants& constants = requant_.constants();
  using Form = kernels::RowConstants::Form;
  const kernels::FixedLoops& loops = kernels::fixed_loops();
  const bool fits = (constants.form == Form::kWhole && !constants.shifts_left) || constants.form == Form::kReal;
  if (loops.depthwise_bytes_run != nullptr && fits) {
    loops.depthwise_bytes_run(
        {rows, advance, pixels, packed_.data(), window_.cells(), window_.channels, &constants, out});
    return;
  }
  each_pixel(rows, advance, pixels, sums, out);
}
void FixedDepthwise::run_pixels(const std::uint16_t** rows, const std::int64_t* advance, std::int64_t pixels,
                                std::int32_t* sums, std::uint16_t* out) const {
  each_pixel(rows, advance, pixels, sums, out);
}

template <typename T>
void FixedDepthwise::each_pixel(const T** rows, const std::int64_t* advance, std::int64_t pixels, std::int32_t* sums,
                                T* out) const {
  const std::int64_t taps = window_.cells();
  for (std::int64_t pixel = 0; pixel < pixels; ++pixel, out += window_.channels) {
    add_up(rows, sums);
    requant_.apply(&sums, 0, window_.channels, out);
    for (std::int64_t tap = 0; tap < taps; ++tap) rows[tap] += advance[tap];
  }
}

template <typename T>
void FixedDepthwise::run_lines(const T* in, T* out, std::int64_t begin, std::int64_t end, std::byte* lane) const {
  const kernels::Window& w = window_;
  const auto pointers = aligned(w.cells() * static_cast<std::int64_t>(sizeof(void*)));
  auto** rows = reinterpret_cast<const T**>(lane);
  auto* advance = reinterpret_cast<std::int64_t*>(lane + pointers);
  auto* sums = reinterpret_cast<std::int32_t*>(lane + 2 * pointers);
  const auto* padding = reinterpret_cast<const T*>(padding_.data());
  const auto inside = [&w](std::int64_t column) {
    return w.column_of(column, 0) >= 0 && w.column_of(column, w.kernel_w - 1) < w.in_w;
  };
  for (std::int64_t row = begin; row < end; ++row) {
    for (std::int64_t column = 0; column < w.out_w;) {
      std::int64_t tap = 0;
      for (std::int64_t kh = 0; kh < w.kernel_h; ++kh) {
        const std::int64_t y = w.row_of(row, kh);
        for (std::int64_t kw = 0; kw < w.kernel_w; ++kw, ++tap) {
          const std::int64_t x = w.column_of(column, kw);
          const bool pixel = w.inside(y, x);
          rows[tap] = pixel ? in + (y * w.in_w + x) * w.channels : padding;
          advance[tap] = pixel ? w.stride_w * w.channels : 0;
        }
      }
      // Away from the sides the cells move on together; those above and below the image stay.
      std::int64_t pixels = 1;
      while (inside(column) && column + pixels < w.out_w && inside(column + pixels)) ++pixels;
      run_pixels(rows, advance, pixels, sums, out + (row * w.out_w + column) * w.channels);
      column += pixels;
    }
  }
}

}  // namespace htpipe::ops
