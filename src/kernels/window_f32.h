// Depthwise convolution and pooling of float images, a line of outputs at a time, across channels.
// Invariant: each output is computed over its cells in the order of the kernel, the same on every instruction set.
#pragma once

#include <cstdint>

#include "kernels/gemm_f32.h"
#include "kernels/window.h"

namespace htpipe::kernels {

/// What a line of outputs is made of; cells outside the image take no part.
enum class WindowSum : std::uint8_t {
  kProducts,  ///< chain of fused multiply-adds with the cell's taps, from 0
  kSum,       ///< from 0
  kMaximum,   ///< from -infinity; NaN when a cell is
};

struct WindowLine {
  const Window* window;
  WindowSum sum;
  const float* image;  ///< [in_d, in_h, in_w, channels]
  const float* taps;   ///< [cells, channels], of kProducts
  std::int64_t line;   ///< of the outputs of one image
  float* out;          ///< [out_w, channels]
  Epilogue epilogue;
};
void run_window_line(const WindowLine& line);

/// One per instruction set.
using RunWindowLine = void (*)(const WindowLine& line);
namespace generic {
void run_window_line(const WindowLine& line);
}
namespace avx2 {
void run_window_line(const WindowLine& line);
}
namespace avx512 {
void run_window_line(const WindowLine& line);
}

}  // namespace htpipe::kernels
