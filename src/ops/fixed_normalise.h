// Integer rules of the normalising operators: docs/htp-arithmetic.md, "Normalisation".
#pragma once

#include <cstdint>

#include "ops/normalise.h"

namespace htpipe::ops {

/// How the chip brings a normalised value to stored integers.
enum class NormRounding : std::uint8_t {
  kInteger,  ///< LayerNorm: an integer factor, and beta rounded to whole steps first
  kFloor,    ///< RmsNorm
};

/// LayerNorm (kInteger) and RmsNorm (kFloor): groups of neighbours along `axes`, gamma and beta by position in the group.
/// Errors: no-fixed-rule.
Result<Kernel> fixed_axes_norm_kernel(const KernelRequest& request, NormRounding rounding);

/// InstanceNorm and GroupNorm on channel-last data: `group` groups of channels, rounded half up. Errors: no-fixed-rule.
Result<Kernel> fixed_channel_norm_kernel(const KernelRequest& request, const ChannelSizes& sizes, std::int64_t group);

/// L2Norm: cut towards the zero point. Errors: no-fixed-rule.
Result<Kernel> fixed_l2_norm_kernel(const KernelRequest& request);

}  // namespace htpipe::ops
