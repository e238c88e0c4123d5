// Storing of weights and biases as integers.
#pragma once

#include "tensor/tensor.h"

namespace htpipe::quant {

struct Parameters {
  Tensor weight;  ///< s8, symmetric, per channel along the axis asked for (per tensor when it is -1)
  Tensor bias;    ///< s32 with scale = input scale * weight scale; empty when there is none
};

/// Symmetric storage of `bits` bits in s8, without the lowest code (-127 … 127 for 8). A channel without weights gets the largest scale of the layer; a channel whose bias
/// would leave ±2^30 steps gets a scale that brings it back.
[[nodiscard]] Parameters quantize_parameters(const Tensor& weight, const Tensor& bias, int channel_axis,
                                             float input_scale, int bits);

}  // namespace htpipe::quant
