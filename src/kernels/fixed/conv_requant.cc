#include "kernels/fixed/conv_requant.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "kernels/fixed/rounding.h"

namespace htpipe::kernels {
namespace {

/// Unsigned view of an activation encoding: signed types are handled as unsigned with a moved zero point.
std::int64_t unsigned_zero(const TensorType& type) {
  const std::int64_t zero = type.encoding->zero_point();
  if (type.dtype == DType::kI8) return zero + 128;
  if (type.dtype == DType::kI16) return zero + 32768;
  return zero;
}

/// Effective bias in units of input scale times weight scale, in single precision as the chip rounds it.
std::vector<float> effective_bias(const ConvRequant::Request& request, float largest_weight_scale) {
  std::vector<float> result(static_cast<std::size_t>(request.channels), 0.0F);
  if (request.bias.empty()) return result;
  const float input_scale = request.input.encoding->scale();
  if (!request.weights.per_channel) {
    const float unit = input_scale * request.weights.scales.front();
    for (std::size_t c = 0; c < result.size(); ++c) {
      const float growth = request.weights.growth.empty() ? 1.0F : request.weights.growth[c];
      result[c] = static_cast<float>(request.bias[c]) * request.bias_scale / (unit * growth);
    }
    return result;
  }
  // Per-channel weights: the bias encoding is ignored, and all biases pass through one common 28-bit scale.
  const float common = input_scale * largest_weight_scale;
  float largest = 0.0F;
  for (std::size_t c = 0; c < result.size(); ++c) {
    result[c] = static_cast<float>(request.bias[c]) * common;
    largest = std::max(largest, std::fabs(result[c]));
  }
  if (largest == 0.0F) return std::vector<float>(result.size(), 0.0F);
  const float unit = largest / 268435456.0F;  // 2^28
  const float inverse = 1.0F / unit;
  for (float& value : result) {
    const float steps = std::rint(value * inverse);
    value = steps * unit / common;
  }
  return result;
}

}  // namespace

Result<ConvRequant> ConvRequant::make(const Request& request) {
  const auto supported = [](DType dtype) {
    return dtype == DType::kU8 || dtype == DType::kI8 || dtype == DType::kU16 || dtype == DType::kI16;
  };
  if (!supported(request.input.dtype) || request.input.dtype != request.output.dtype || !request.input.encoding ||
      !request.output.encoding) {
    return fail(Code::kNoFixedRule, fmt::format("no integer rule for products of {} -> {}",
                                                name_of(request.input.dtype), name_of(request.output.dtype)));
  }
  ConvRequant result;
  result.wide_ = size_of(request.input.dtype) == 2;
  result.deep_ = request.weights.deep;
  result.v68_ = request.htp_version < 73;
  if (result.deep_ && (!result.wide_ || result.v68_)) {
    return fail(Code::kNoFixedRule, "16-bit weights need 16-bit activations and v73");
  }
  result.stride2_ = request.form == ConvForm::kNoShift;
  result.exact_ = request.form == ConvForm::kExact;
  result.high_ = result.wide_ ? 65535 : 255;
  const bool is_signed = request.output.dtype == DType::kI8 || request.output.dtype == DType::kI16;
  result.signed_offset_ = is_signed ? (result.wide_ ? 32768 : 128) : 0;
  result.zero_ = unsigned_zero(request.output);
  const std::int64_t input_zero = unsigned_zero(request.input);

  const WeightScales& weights = request.weights;
  const float largest = *std::max_element(weights.scales.begin(), weights.scales.end());
  const float input_scale = request.input.encoding->scale();
  const float output_scale = request.output.encoding->scale();
  const float product = input_scale * largest;
  const std::vector<float> bias = effective_bias(request, largest);

  // The form without shift keeps 15 bits of the factor in a shift of at most 30.
  const float smallest = *std::min_element(weights.scales.begin(), weights.scales.end());
  if (static_cast<double>(input_scale) * static_cast<double>(smallest) / static_cast<double>(output_scale) <
      std::ldexp(1.0, -16)) {
    result.stride2_ = false;
  }
  result.channels_.resize(static_cast<std::size_t>(request.channels));
  for (std::size_t c = 0; c < result.channels_.size(); ++c) {
    ChannelRequant& channel = result.channels_[c];
    float multiplier = weights.per_channel ? (product / output_scale) * (weights.scales[c] / largest)
                                           : (input_scale * weights.scales.front()) / output_scale;
    if (!weights.growth.empty()) multiplier *= weights.growth[c];
    const double real = static_cast<double>(multiplier);
    if (!(real > 0) || real > 1e4 || real < 1e-12) {
      return fail(Code::kNoFixedRule,
                  fmt::format("output channel {}: the scale ratio {} is out of range", c, multiplier));
    }
    if (result.wide_ && !result.exact_ && real < std::ldexp(1.0, -24)) {
      return fail(
          Code::kNoFixedRule,
          fmt::format("output channel {}: the scale ratio {} is too small for 16 bits on the chip", c, multiplier));
    }
    if (result.deep_ && real > 1) {
      return fail(Code::kNoFixedRule,
                  fmt::format("output channel {}: the scale ratio {} overflows with 16-bit weights", c, multiplier));
    }
    channel.real_multiplier = multiplier;
    channel.real_bias = bias[c];
    const auto zero_in_sum = static_cast<float>(result.zero_) / multiplier;
    const auto bias_with_zero = static_cast<std::int64_t>(round_half_away(bias[c] + zero_in_sum));
    const auto bias_alone = static_cast<std::int64_t>(std::trunc(bias[c]));
    if (result.wide_ && !request.weight_sums.empty()) {
      const int dropped = result.deep_ ? 16 : 8;
      channel.zero_term = (input_zero * request.weight_sums[c] + (std::int64_t{1} << (dropped - 1))) >> dropped;
    }
    if (result.stride2_) {
      const Mantissa scaled = mantissa(real, 15);
      channel.bias = bias_with_zero;
      channel.multiplier = scaled.value;
      channel.multiplier_shift = scaled.shift;
      // 8 bits keep no digits to round when the factor is a half or more.
      channel.rounds = result.wide_ || scaled.shift > 15;
      if (result.wide_ && real > 16) {
        return fail(Code::kNoFixedRule, fmt::format("output channel {}: the scale ratio {} overflows", c, multiplier));
      }
      continue;
    }
    const int log_inverse = real == std::ldexp(1.0, floor_log2(real)) ? -floor_log2(real) : -floor_log2(real) - 1;
    if (result.wide_) {
      channel.bias = result.deep_  ? static_cast<std::int64_t>(std::rint(bias[c] / 65536.0F))
                     : result.v68_ ? bias_with_zero >> 8
                                   : static_cast<std::int64_t>(std::trunc(bias[c] / 256.0F));
      channel.shift = log_inverse - 7;
      const Mantissa scaled = result.v68_ ? mantissa(real * 256.0, 11) : mantissa(std::ldexp(real, channel.shift), 22);
      channel.multiplier = scaled.value;
      channel.multiplier_shift = scaled.shift;
    } else {
      channel.bias = result.v68_ ? bias_with_zero : bias_alone;
      channel.shift = log_inverse - 3;
      const int grid = result.v68_ ? 14 : 15;
      channel.multiplier = static_cast<std::int64_t>(std::floor(std::ldexp(real, channel.shift + grid) + 0.5));
      channel.multiplier_shift = grid;
    }
  }
  return result;
}

std::int64_t ConvRequant::apply(std::int64_t sum, std::size_t index) const {
  const ChannelRequant& channel = channels_[index];
  std::int64_t q = 0;
  if (exact_) {
    const float real = (static_cast<float>(sum) + channel.real_bias) * channel.real_multiplier;
    q = static_cast<std::int64_t>(std::rint(real + static_cast<float>(zero_)));
  } else if (stride2_) {
    // Beyond this everything is clamped: the factor is at least 2^-16.
    constexpr std::int64_t kMost = std::int64_t{1} << 46;
    const std::int64_t product = std::clamp(sum + channel.bias, -kMost, kMost) * channel.multiplier;
    q = shift(product + (channel.rounds ? shift(1, 1 - channel.multiplier_shift) : 0), channel.multiplier_shift);
  } else if (wide_) {
    const int dropped = deep_ ? 16 : 8;
    const std::int64_t a = (sum >> dropped) - channel.zero_term + channel.bias;
    if (v68_) {
      q = shift(a * channel.multiplier + shift(1, 1 - channel.multiplier_shift), channel.multiplier_shift);
    } else {
      // What is larger is clamped in the end whatever the multiplier.
      constexpr std::int64_t kMost = std::int64_t{1} << 38;
      const std::int64_t limit = kMost >> std::max(0, -channel.shift);
      const std::int64_t whole = a * (std::int64_t{1} << dropped);
      const std::int64_t shifted =
          std::clamp(shift(channel.shift < 0 ? std::clamp(whole, -limit, limit) : whole, channel.shift), -kMost, kMost);
      q = shift((2 * shifted + 1) * channel.multiplier + shift(1, -channel.multiplier_shift),
                channel.multiplier_shift + 1) +
          zero_;
    }
  } else {
    // Beyond these everything is clamped: what is left of the factor is at least 2^-5.
    constexpr std::int64_t kMost = std::int64_t{1} << 40;
    const std::int64_t whole = sum + channel.bias;
    const std::int64_t a =
        std::clamp(shift(channel.shift < 0 ? std::clamp(whole, -kMost, kMost) : whole, channel.shift), -kMost, kMost);
    q = v68_ ? (a * channel.multiplier + (std::int64_t{1} << 13)) >> 14
             : (((2 * a + 1) * channel.multiplier + (std::int64_t{1} << 15)) >> 16) + zero_;
  }
  return std::clamp(q, low_, high_) - signed_offset_;
}

}  // namespace htpipe::kernels
