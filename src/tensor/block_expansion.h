// Block-wise 4-bit weights as the chip stores them: a scale for each channel times a small integer for each block.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace htpipe {

struct BlockExpansion {
  int channel_axis = 0;               ///< of the outputs; blocks run along the encoding's axis
  std::vector<float> channel_scales;  ///< real = stored * channel scale * factor
  std::vector<std::uint8_t> factors;  ///< 1 … 15, [channel][block]
  std::int64_t blocks = 0;            ///< of a channel
};

/// Takes the scales of a type with an encoding per block apart. The largest factor of a channel is the smallest number
/// with which all its scales become integers.
/// Errors: no-fixed-rule when they do not, and for tensors with more than two axes of more than one element.
Result<BlockExpansion> block_expansion(const TensorType& type);

}  // namespace htpipe
