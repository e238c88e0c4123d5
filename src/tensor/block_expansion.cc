#include "tensor/block_expansion.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace htpipe {
namespace {

constexpr int kLargestFactor = 15;
constexpr float kTolerance = 1e-4F;  // of a factor

/// The factors of one channel for a unit; empty when the scales are no multiples of it.
std::vector<std::uint8_t> factors_of(const std::vector<float>& scales, float unit) {
  std::vector<std::uint8_t> factors;
  for (const float scale : scales) {
    const float factor = scale / unit;
    const float nearest = std::rint(factor);
    if (!(nearest >= 1) || nearest > kLargestFactor || std::fabs(factor - nearest) > kTolerance) return {};
    factors.push_back(static_cast<std::uint8_t>(nearest));
  }
  return factors;
}

}  // namespace

Result<BlockExpansion> block_expansion(const TensorType& type) {
  const Encoding& encoding = *type.encoding;
  const auto axis = static_cast<std::size_t>(encoding.axis);
  const std::size_t rank = type.shape.size();
  if (rank < 2) return fail(Code::kNoFixedRule, "scales per block of a vector");
  // The weights of FullyConnected and transposed products are [out, in], all others [.., in, out].
  const std::size_t channel_axis = axis + 1 < rank ? axis + 1 : axis - 1;
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != axis && i != channel_axis && type.shape[i] != 1) {
      return fail(Code::kNoFixedRule, fmt::format("scales per block of weights {}", to_string(type.shape)));
    }
  }
  if (type.dtype != DType::kI8 || encoding.bits != 4) return fail(Code::kNoFixedRule, "scales per block need 4 bits");
  if (std::any_of(encoding.zero_points.begin(), encoding.zero_points.end(), [](int z) { return z != 0; })) {
    return fail(Code::kNoFixedRule, "scales per block need symmetric weights");
  }
  if (type.shape[axis] % encoding.block != 0) return fail(Code::kNoFixedRule, "the last block is shorter");
  BlockExpansion result;
  result.channel_axis = static_cast<int>(channel_axis);
  result.blocks = type.shape[axis] / encoding.block;
  const std::int64_t channels = type.shape[channel_axis];
  const bool channels_first = channel_axis < axis;
  for (std::int64_t c = 0; c < channels; ++c) {
    std::vector<float> scales;
    for (std::int64_t b = 0; b < result.blocks; ++b) {
      scales.push_back(
          encoding.scales[static_cast<std::size_t>(channels_first ? c * result.blocks + b : b * channels + c)]);
    }
    const float largest = *std::max_element(scales.begin(), scales.end());
    std::vector<std::uint8_t> factors;
    for (int top = 1; top <= kLargestFactor && factors.empty(); ++top) {
      const float unit = largest / static_cast<float>(top);
      factors = factors_of(scales, unit);
      if (!factors.empty()) result.channel_scales.push_back(unit);
    }
    if (factors.empty()) {
      return fail(Code::kNoFixedRule,
                  fmt::format("channel {}: the scales of its blocks are no multiples 1 to 15 of a scale", c));
    }
    result.factors.insert(result.factors.end(), factors.begin(), factors.end());
  }
  return result;
}

}  // namespace htpipe
