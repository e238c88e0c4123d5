// Depthwise convolution on stored integers, all channels of a pixel at once: the fast form of DepthWiseConv2d.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/op.h"
#include "kernels/fixed/conv_requant.h"
#include "kernels/fixed/elementwise.h"
#include "kernels/fixed/row_requant.h"
#include "kernels/window.h"

namespace htpipe::ops {

class FixedDepthwise {
 public:
  /// More would not fit 32-bit sums of 16-bit inputs.
  static constexpr std::int64_t kMostTaps = 500;

  /// `taps` are 8-bit weights [kernel_h * kernel_w, channels]; the result has the input's data type.
  FixedDepthwise(const kernels::Window& window, const kernels::Grid& input, DType dtype,
                 const std::vector<std::int16_t>& taps, const kernels::ConvRequant& requant);

  [[nodiscard]] std::size_t scratch_bytes() const;
  [[nodiscard]] std::size_t lane_scratch_bytes() const;
  void run(const KernelCall& call) const;

 private:
  template <typename T>
  void run_lines(const T* in, T* out, std::int64_t begin, std::int64_t end, std::byte* lane) const;
  void run_pixels(const std::uint8_t** rows, const std::int64_t* advance, std::int64_t pixels, std::int32_t* sums,
                  std::uint8_t* out) const;
  void run_pixels(const std::uint16_t** rows, const std::int64_t* advance, std::int64_t pixels, std::int32_t* sums,
                  std::uint16_t* out) const;
  template <typename T>
  void each_pixel(const T** rows, const std::int64_t* advance, std::int64_t pixels, std::int32_t* sums, T* out) const;
  void add_up(const std::uint8_t* const* rows, std::int32_t* sums) const;
  void add_up(const std::uint16_t* const* rows, std::int32_t* sums) const;

  kernels::Window window_;
  kernels::RowRequant requant_;
  DType dtype_;
  std::vector<std::int8_t> packed_;     ///< of 8-bit inputs
  std::vector<std::int16_t> pairs_;     ///< of 16-bit inputs
  std::vector<std::uint16_t> padding_;  ///< stored zero points of all channels; bytes when inputs have 8 bits
};

}  // namespace htpipe::ops
