// Which of its algorithms the chip takes for a DepthWiseConv2d: it depends on kernel, strides, channels and widths.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "kernels/fixed/conv_requant.h"
#include "kernels/window.h"
#include "tensor/tensor.h"

namespace htpipe::ops {

/// Found by trying (docs/htp-arithmetic.md, "DepthWiseConv2d"). `multiplier`: results of each input channel.
/// Errors: no-fixed-rule where the emulator refuses the layer or its answer is no convolution.
Result<kernels::ConvForm> depth_wise_form(const kernels::Window& window, std::int64_t multiplier,
                                          const TensorType& input, const TensorType& weight, int htp_version);

}  // namespace htpipe::ops
