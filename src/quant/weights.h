// Storing of weights and biases as integers.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"

namespace htpipe::quant {

struct Parameters {
  Tensor weight;
  Tensor bias;  ///< s32 with scale = input scale * weight scale; empty when there is none
};

/// The smallest scale of a weight's channel for which the chip's arithmetic is that of all others: below, v68 overflows,
/// and one dead channel makes a whole depthwise layer less exact.
[[nodiscard]] float least_weight_scale(const Encoding& input, const Encoding& result);

/// Symmetric storage of `bits` bits in s8 or s16, without the lowest code (-127 … 127 for 8); 16 bits stop at 32639, where
/// the chip saturates. No scale is below `least_scale`. A `block` above 0 asks for scales per block of 4-bit weights along
/// the axis of the inputs, where weights are [out, in] or [1, 1, in, out] and have whole blocks.
/// A channel without weights gets the largest scale of the layer; a channel whose bias would leave ±2^30 steps gets a
/// scale that brings it back.
[[nodiscard]] Parameters quantize_parameters(const Tensor& weight, const Tensor& bias, int channel_axis,
                                             float input_scale, int bits, float least_scale = 0,
                                             std::int64_t block = 0);

/// The factors and offsets of a normalisation: u8 and s32 per tensor. The chip takes no symmetric factors in 8 bits, and
/// no factors of 16 bits on v68.
[[nodiscard]] Parameters quantize_vectors(const Tensor& weight, const Tensor& bias, float input_scale);

}  // namespace htpipe::quant
