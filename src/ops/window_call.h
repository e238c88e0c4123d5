// Depthwise convolution or pooling of operand 0 into result 0, lines shared out among the threads of a call.
#pragma once

#include "kernels/window_f32.h"
#include "ops/lanes.h"

namespace htpipe::ops {

inline void run_window(const kernels::Window& window, kernels::WindowSum sum, const float* taps,
                       const kernels::Epilogue& epilogue, const KernelCall& call) {
  const std::int64_t lines = window.n * window.out_lines();
  const std::int64_t cells = window.cells() * window.out_w * window.channels;
  constexpr std::int64_t kGrain = 1 << 17;  // cells that are worth a hand-over to another thread
  for_parts(call, lines, kGrain / (cells + 1) + 1, [&](std::int64_t begin, std::int64_t end, std::byte*) {
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t image = line / window.out_lines();
      kernels::run_window_line({&window, sum, call.in<float>(0) + image * window.in_pixels() * window.channels, taps,
                                line % window.out_lines(), call.out<float>(0) + line * window.out_w * window.channels,
                                epilogue});
    }
  });
}

}  // namespace htpipe::ops
