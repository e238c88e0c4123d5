#include "ops/activation.h"

#include <fmt/core.h>

#include <limits>
#include <string>

#include "kernels/fixed/elementwise.h"

namespace htpipe::ops {

AttributeSpec activation_attribute() {
  return {"activation", std::string("none"), false, "clamp applied to the result: none, relu or relu6"};
}

Result<ActivationRange> activation_range(std::string_view activation) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (activation == "none") return ActivationRange{-kInfinity, kInfinity};
  if (activation == "relu") return ActivationRange{0.0F, kInfinity};
  if (activation == "relu6") return ActivationRange{0.0F, 6.0F};
  return fail(Code::kUnsupportedForm, fmt::format("no activation \"{}\"", activation));
}

void apply_activation(ActivationRange range, float* values, std::int64_t count) {
  if (range.low == -std::numeric_limits<float>::infinity()) return;
  for (std::int64_t i = 0; i < count; ++i) {
    const float low = values[i] < range.low ? range.low : values[i];
    values[i] = low > range.high ? range.high : low;
  }
}

Status check_activation_encoding(std::string_view activation, const TensorType& result) {
  if (activation == "none") return {};
  HTPIPE_TRY(const ActivationRange range, activation_range(activation));
  HTPIPE_TRY(const kernels::Grid grid, kernels::Grid::of(result));
  const double top = static_cast<double>(grid.high - grid.zero) * grid.scale;
  if (grid.zero != 0 || top > static_cast<double>(range.high) + 0.51 * grid.scale) {
    return fail(Code::kNoFixedRule, fmt::format("the encoding of the result does not clamp as {} does", activation));
  }
  return {};
}

}  // namespace htpipe::ops
