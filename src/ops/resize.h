// Resampling along one axis as a table of taps. Every mode of Resize is such a table for each spatial axis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/op.h"

namespace htpipe::ops {

/// How output positions become input coordinates, and what is taken there.
struct ResizeAxis {
  std::string interpolation;   ///< nearest, linear, cubic
  std::string transformation;  ///< see Resize's attribute transformation_mode
  std::string nearest;         ///< round_prefer_floor, round_prefer_ceil, floor, ceil
  double cubic_coeff = -0.75;
  bool exclude_outside = false;
  bool antialias = false;
  std::int64_t in = 1;
  std::int64_t out = 1;
  float scale = 0;  ///< out / in as the model says it; 0 = take the ratio of the sizes
};

/// Output position o is the sum over taps t of begin[o] <= t < begin[o + 1] of weight[t] * input[index[t]].
struct Taps {
  std::vector<std::size_t> begin = {0};
  std::vector<std::int64_t> index;
  std::vector<float> weight;

  /// True when the axis stays as it is.
  [[nodiscard]] bool is_identity() const;
};
/// Errors: unsupported-form for an unknown mode.
Result<Taps> make_taps(const ResizeAxis& axis);

/// Linear interpolation of stored integers, channel-last, along height and width. Errors: no-fixed-rule.
Result<Kernel> fixed_linear_kernel(const KernelRequest& request, const std::vector<ResizeAxis>& axes);
/// The same with the cubic filter.
Result<Kernel> fixed_cubic_kernel(const KernelRequest& request, const std::vector<ResizeAxis>& axes);

}  // namespace htpipe::ops
