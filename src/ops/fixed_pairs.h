// Loops of operators that give one stored value for every pair of stored values, with broadcasting.
#pragma once

#include <optional>

#include "ir/op.h"
#include "kernels/fixed/elementwise.h"

namespace htpipe::ops {

/// Applies `function`, on the unsigned view, to operands 0 and 1. The result is stored, or bool. Where it is the addition
/// with these constants, vectors do it.
Kernel pair_kernel(const KernelRequest& request, const kernels::Binary& function,
                   const std::optional<kernels::AddFactors>& addition = std::nullopt);

}  // namespace htpipe::ops
