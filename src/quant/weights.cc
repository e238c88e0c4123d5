#include "quant/weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "quant/histogram.h"
#include "quant/quantize.h"
#include "quant/range.h"
#include "tensor/block_expansion.h"

namespace htpipe::quant {
namespace {

constexpr float kLargestDeep = 32639.0F;       // of 16-bit weights: 127 * 256 + 127
constexpr float kLargestFactor = 15.0F;        // of the scale of a block
constexpr double kLargestBias = 1073741824.0;  // 2^30: the chip's sum of bias and products must stay inside 32 bits

/// Largest magnitude of the weights of each channel (one entry when there is no axis).
std::vector<float> channel_maxima(const Tensor& weight, int axis) {
  const std::vector<float> values = to_floats(weight);
  if (axis < 0) {
    float largest = 0;
    for (const float value : values) largest = std::max(largest, std::fabs(value));
    return {largest};
  }
  const auto at = static_cast<std::size_t>(axis);
  std::size_t inner = 1;
  for (std::size_t i = at + 1; i < weight.shape().size(); ++i) inner *= static_cast<std::size_t>(weight.shape()[i]);
  std::vector<float> maxima(static_cast<std::size_t>(weight.shape()[at]), 0.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& largest = maxima[i / inner % maxima.size()];
    largest = std::max(largest, std::fabs(values[i]));
  }
  return maxima;
}

/// The axis of the inputs in weights that can have blocks.
int block_axis(const Shape& shape, int channel_axis) { return shape.size() == 2 ? 1 - channel_axis : channel_axis - 1; }

bool has_blocks(const Shape& shape, int channel_axis, std::int64_t block) {
  const bool matrix = shape.size() == 2 && channel_axis >= 0;
  const bool pointwise = shape.size() == 4 && channel_axis == 3 && shape[0] == 1 && shape[1] == 1 && shape[2] > 1;
  return (matrix || pointwise) && shape[static_cast<std::size_t>(block_axis(shape, channel_axis))] % block == 0;
}

/// Scales per block: the channel's scale times the smallest factor 1 … 15 that holds the block's largest weight.
Encoding block_encoding(const Tensor& weight, int channel_axis, std::int64_t block, const std::vector<float>& scales) {
  TensorType type = weight.type();
  type.encoding = Encoding{{}, {}, block_axis(weight.shape(), channel_axis), 4, block};
  const std::vector<float> values = to_floats(weight);
  std::vector<float> largest(static_cast<std::size_t>(element_count(scale_shape(*type.encoding, type.shape))), 0.0F);
  std::vector<std::size_t> channel(largest.size(), 0);
  std::size_t inner = 1;
  for (auto axis = static_cast<std::size_t>(channel_axis) + 1; axis < type.shape.size(); ++axis) {
    inner *= static_cast<std::size_t>(type.shape[axis]);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t at = scale_index(type, static_cast<std::int64_t>(i));
    largest[at] = std::max(largest[at], std::fabs(values[i]));
    channel[at] = i / inner % scales.size();
  }
  for (std::size_t i = 0; i < largest.size(); ++i) {
    const float scale = scales[channel[i]];
    const float factor = std::clamp(std::ceil(largest[i] / (7.0F * scale) - 1e-4F), 1.0F, kLargestFactor);
    type.encoding->scales.push_back(scale * factor);
  }
  type.encoding->zero_points.assign(largest.size(), 0);
  return *type.encoding;
}

}  // namespace

float least_weight_scale(const Encoding& input, const Encoding& result) {
  // 2^-18: what a weight's rounding moves a result by is far below its step. Zero point: v68 adds it to the sum.
  const double least_ratio = std::max(std::ldexp(1.0, -18), std::ldexp(result.zero_point(), -30));
  return static_cast<float>(least_ratio * static_cast<double>(result.scale()) / static_cast<double>(input.scale()));
}

Parameters quantize_parameters(const Tensor& weight, const Tensor& bias, int channel_axis, float input_scale, int bits,
                               float least_scale, std::int64_t block) {
  const bool blocks = block > 0 && has_blocks(weight.shape(), channel_axis, block);
  if (blocks) bits = 4;
  const float levels = blocks ? 7.0F * kLargestFactor : bits == 4 ? 7.0F : bits == 16 ? kLargestDeep : 127.0F;
  std::vector<float> scales = channel_maxima(weight, channel_axis);
  for (float& scale : scales) scale /= levels;
  const float largest = *std::max_element(scales.begin(), scales.end());
  for (float& scale : scales) {
    if (!(scale > largest * 1e-7F)) scale = largest > 0 ? largest : 1.0F;
    scale = std::max(scale, least_scale);
  }
  const std::vector<float> biases = bias.empty() ? std::vector<float>{} : to_floats(bias);
  for (std::size_t c = 0; c < biases.size(); ++c) {
    // A grouped transposed convolution has fewer weight channels than results: each scale serves every group.
    float& scale = scales[c % scales.size()];
    const double steps =
        std::fabs(static_cast<double>(biases[c])) / (static_cast<double>(input_scale) * static_cast<double>(scale));
    if (steps > kLargestBias) scale = static_cast<float>(static_cast<double>(scale) * steps / kLargestBias);
  }
  Parameters result;
  TensorType type{bits == 16 ? DType::kI16 : DType::kI8, weight.shape(),
                  Encoding{scales, std::vector<std::int32_t>(scales.size(), 0), channel_axis, bits}};
  if (blocks) {
    type.encoding = block_encoding(weight, channel_axis, block, scales);
    scales = block_expansion(type)->channel_scales;  // the encoding was made of them
  }
  result.weight = store_as(weight, type);
  if (bias.empty()) return result;
  Encoding encoding{{}, {}, channel_axis < 0 ? -1 : 0, 32};
  const std::size_t channels = channel_axis < 0 ? 1 : std::max(biases.size(), scales.size());
  for (std::size_t c = 0; c < channels; ++c) {
    encoding.scales.push_back(input_scale * scales[c % scales.size()]);
    encoding.zero_points.push_back(0);
  }
  result.bias = store_as(bias, {DType::kI32, bias.shape(), std::move(encoding)});
  return result;
}

Parameters quantize_vectors(const Tensor& weight, const Tensor& bias, float input_scale) {
  const auto range_of = [](const Tensor& tensor) {
    Histogram histogram;
    histogram.add(to_floats(tensor));
    return choose_range(histogram, RangeMethod::kMinMax, 100, 8);
  };
  Parameters result;
  result.weight = store_as(weight, {DType::kU8, weight.shape(), asymmetric_encoding(range_of(weight), 8)});
  if (bias.empty()) return result;
  const Range range = range_of(bias);
  const float least = std::max(range.high, -range.low) / static_cast<float>(kLargestBias);
  const float scale = std::max(input_scale * result.weight.type().encoding->scale(), least);
  result.bias = store_as(bias, {DType::kI32, bias.shape(), Encoding::per_tensor(scale, 0, 32)});
  return result;
}

Tensor store_as(const Tensor& real, const TensorType& type) {
  Tensor stored(type);
  if (!is_float(type.dtype) && !type.encoding) {  // indices and masks
    if (type.dtype == real.dtype()) return real;
    HTPIPE_CHECK(real.dtype() == DType::kI64 && type.dtype == DType::kI32, "plain integers of another type");
    const auto numbers = real.data<std::int64_t>();
    std::transform(numbers.begin(), numbers.end(), stored.mutable_data<std::int32_t>().begin(),
                   [](std::int64_t number) { return static_cast<std::int32_t>(number); });
    return stored;
  }
  const std::vector<float> values = to_floats(real);
  if (type.dtype == DType::kF32) {
    std::copy(values.begin(), values.end(), stored.mutable_data<float>().begin());
    return stored;
  }
  if (type.dtype == DType::kF16) {
    std::transform(values.begin(), values.end(), stored.mutable_data<std::uint16_t>().begin(), to_f16);
    return stored;
  }
  const Encoding& encoding = *type.encoding;
  std::size_t inner = 1;
  if (encoding.per_channel()) {
    for (std::size_t i = static_cast<std::size_t>(encoding.axis) + 1; i < type.shape.size(); ++i) {
      inner *= static_cast<std::size_t>(type.shape[i]);
    }
  }
  // Symmetric weights leave the lowest code out.
  const bool symmetric = (type.dtype == DType::kI8 || type.dtype == DType::kI16) && encoding.zero_points.front() == 0;
  const double top = std::ldexp(1.0, encoding.bits - 1) - 1;
  const double low = symmetric ? -top : static_cast<double>(lowest(type.dtype));
  const double high = symmetric ? top : static_cast<double>(highest(type.dtype));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t channel = encoding.per_channel() ? i / inner % encoding.scales.size()
                                : encoding.per_block() ? scale_index(type, static_cast<std::int64_t>(i))
                                                       : 0;
    const double q =
        std::clamp(std::rint(static_cast<double>(values[i]) / static_cast<double>(encoding.scales[channel])) +
                       encoding.zero_points[channel],
                   low, high);
    switch (type.dtype) {
      case DType::kI8:
        stored.mutable_data<std::int8_t>()[i] = static_cast<std::int8_t>(q);
        break;
      case DType::kU8:
        stored.mutable_data<std::uint8_t>()[i] = static_cast<std::uint8_t>(q);
        break;
      case DType::kU16:
        stored.mutable_data<std::uint16_t>()[i] = static_cast<std::uint16_t>(q);
        break;
      case DType::kI16:
        stored.mutable_data<std::int16_t>()[i] = static_cast<std::int16_t>(q);
        break;
      default:
        stored.mutable_data<std::int32_t>()[i] = static_cast<std::int32_t>(q);
        break;
    }
  }
  return stored;
}

}  // namespace htpipe::quant
