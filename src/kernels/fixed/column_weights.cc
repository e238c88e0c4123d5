#include "kernels/fixed/column_weights.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "kernels/fixed/elementwise.h"
#include "kernels/fixed/rounding.h"
#include "tensor/block_expansion.h"

namespace htpipe::kernels {
namespace {

/// Largest and smallest weight of one width, and the significant bits of the factor that brings others down to it.
struct Width {
  std::int32_t high;
  std::int32_t low;
  int factor_bits;
};
constexpr Width kNarrow = {127, -128, 12};
constexpr Width kDeep = {32639, -32768, 22};  // two signed bytes: 127 * 256 + 127

/// Zero point of an encoding in the unsigned view, when it has just one.
Result<std::int64_t> common_zero(const TensorType& type, std::int64_t offset) {
  const auto& zeros = type.encoding->zero_points;
  const bool alike = std::all_of(zeros.begin(), zeros.end(), [&](std::int32_t zero) { return zero == zeros.front(); });
  if (!alike) return fail(Code::kNoFixedRule, "weights with a zero point for each channel");
  return zeros.front() + offset;
}

}  // namespace

/// The chip works with real weights in single precision here.
template <typename T>
void shrink_values(ColumnOrder order, std::vector<T>& values, WeightScales& scales) {
  const Width& width = scales.deep ? kDeep : kNarrow;
  if (scales.symmetric) {
    for (T& value : values) value = static_cast<T>(std::clamp<std::int32_t>(value, width.low, width.high));
    return;
  }
  const auto columns = static_cast<std::size_t>(order.columns);
  const float scale = scales.scales.front();
  const float highest = static_cast<float>(width.high) * scale;
  const float lowest = static_cast<float>(width.low) * scale;
  std::vector<float> factors(columns, 1.0F);
  for (std::size_t i = 0; i < values.size(); ++i) {
    float& factor = factors[i / static_cast<std::size_t>(order.inner) % columns];
    const float real = static_cast<float>(values[i]) * scale;
    factor = std::max(factor, real / (values[i] > 0 ? highest : lowest));
  }
  std::vector<std::int64_t> inverse(columns, 0);
  scales.growth.assign(columns, 1.0F);
  for (std::size_t c = 0; c < columns; ++c) {
    if (!(factors[c] > 1)) continue;
    const Mantissa factor = mantissa(static_cast<double>(factors[c]), width.factor_bits);
    scales.growth[c] = static_cast<float>(std::ldexp(static_cast<double>(factor.value), -factor.shift));
    inverse[c] = static_cast<std::int64_t>(std::floor(static_cast<double>((1.0F / scales.growth[c]) * 65536.0F) + 0.5));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t by = inverse[i / static_cast<std::size_t>(order.inner) % columns];
    if (by == 0) continue;
    const std::int64_t shrunk = (std::int64_t{values[i]} * by + 32768) >> 16;
    values[i] = static_cast<T>(std::clamp<std::int64_t>(shrunk, width.low, width.high));
  }
}

void shrink(ColumnOrder order, ColumnWeights& weights) { shrink_values(order, weights.values, weights.scales); }

Result<ColumnWeights> column_weights(const TensorType& type, const void* data, ColumnOrder order, Excess excess) {
  const bool supported =
      type.dtype == DType::kI8 || type.dtype == DType::kU8 || type.dtype == DType::kI16 || type.dtype == DType::kU16;
  if (!supported || !type.encoding) {
    return fail(Code::kNoFixedRule, fmt::format("no integer rule for weights of {}", name_of(type.dtype)));
  }
  const Encoding& encoding = *type.encoding;
  ColumnWeights result;
  result.scales.deep = size_of(type.dtype) == 2;
  const std::int64_t offset = type.dtype == DType::kI8 ? 128 : type.dtype == DType::kI16 ? 32768 : 0;
  const std::int64_t middle = result.scales.deep ? 32768 : 128;
  HTPIPE_TRY(const std::int64_t zero, common_zero(type, offset));
  std::vector<std::int32_t> values(static_cast<std::size_t>(type.count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::int32_t>(load(data, type.dtype, static_cast<std::int64_t>(i)) - zero);
  }
  if (encoding.per_block()) {
    HTPIPE_TRY(const BlockExpansion expansion, block_expansion(type));
    const auto at = static_cast<std::size_t>(encoding.axis);
    const std::int64_t size = type.shape[at];
    const std::int64_t channels = type.shape[static_cast<std::size_t>(expansion.channel_axis)];
    const bool channels_first = expansion.channel_axis < encoding.axis;
    for (std::int64_t i = 0; i < type.count(); ++i) {
      const std::int64_t channel = channels_first ? i / size : i % channels;
      const std::int64_t block = (channels_first ? i % size : i / channels) / encoding.block;
      values[static_cast<std::size_t>(i)] *=
          expansion.factors[static_cast<std::size_t>(channel * expansion.blocks + block)];
    }
    result.scales.scales = expansion.channel_scales;
    result.scales.per_channel = true;
  } else {
    result.scales.scales = encoding.scales;
    result.scales.per_channel = encoding.per_channel();
    if (encoding.per_channel() && static_cast<std::int64_t>(encoding.scales.size()) != order.columns) {
      return fail(Code::kNoFixedRule, "the weights have scales along another axis than the outputs");
    }
  }
  result.scales.symmetric = zero == middle;
  if (!result.scales.symmetric && result.scales.per_channel) {
    return fail(Code::kNoFixedRule, "asymmetric weights with scales per channel");
  }
  if (excess == Excess::kShrink || result.scales.symmetric) {
    shrink_values(order, values, result.scales);
  } else if (result.scales.deep) {
    return fail(Code::kNoFixedRule, "asymmetric 16-bit weights in this form of the operator");
  }
  result.values.assign(values.begin(), values.end());
  return result;
}

}  // namespace htpipe::kernels
