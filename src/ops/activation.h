// The activation that a producer may carry (attribute `activation`): applied to its result.
// In integers it costs nothing: the result's encoding begins at the lower bound, and the clamp does the rest. That is
// exact on the chip, where a stand-alone clamp behind a convolution is not (docs/htp-arithmetic.md).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "ir/op.h"

namespace htpipe::ops {

/// The attribute `activation`: "none", "relu" or "relu6".
[[nodiscard]] AttributeSpec activation_attribute();

struct ActivationRange {
  float low;
  float high;
};
/// Bounds of the result; infinite where there is none. Errors: unsupported-form for an unknown name.
Result<ActivationRange> activation_range(std::string_view activation);

/// Clamps `count` floats in place.
void apply_activation(ActivationRange range, float* values, std::int64_t count);

/// Checks that the encoding of `result` does the clamping. Errors: no-fixed-rule.
Status check_activation_encoding(std::string_view activation, const TensorType& result);

}  // namespace htpipe::ops
