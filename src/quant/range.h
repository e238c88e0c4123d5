// From a histogram to the range that is represented.
#pragma once

#include <string_view>

#include "base/result.h"
#include "quant/histogram.h"
#include "tensor/tensor.h"

namespace htpipe::quant {

enum class RangeMethod : std::uint8_t {
  kMinMax,      ///< everything seen
  kPercentile,  ///< clips (100 - percentile) per cent of the values, shared by both ends
  kMse,         ///< the clip with the least squared error of the stored values
};
/// "minmax", "percentile", "mse". Errors: config-type.
Result<RangeMethod> parse_range_method(std::string_view text);

struct Range {
  float low = 0;
  float high = 0;
};

/// Range of a value for `bits`-bit asymmetric storage; contains 0. Where the histogram left infinities out, it ends far
/// enough behind the others for a softmax.
[[nodiscard]] Range choose_range(const Histogram& histogram, RangeMethod method, double percentile, int bits);

/// Asymmetric per-tensor encoding of an unsigned type of `bits` bits for a range that contains 0. A range without
/// extent gets a harmless scale.
[[nodiscard]] Encoding asymmetric_encoding(Range range, int bits);

}  // namespace htpipe::quant
