// What the Reduce operators share: attributes, shape rule and kernels. Each has its own file with its OpDef.
// Invariant: terms are added in one fixed order, in double precision for floats, whatever the number of threads.
#pragma once

#include <cstdint>
#include <string_view>

#include "ir/op.h"

namespace htpipe::ops {

enum class Reduction : std::uint8_t { kMean, kSum, kMax, kMin, kProd, kSumSquare };

/// The definition of a Reduce operator. Attributes: axes (none: every element by itself) and keep_dims.
/// Integers wrap around; their mean is cut towards zero. bool has maximum (any), minimum (all) and product (all).
/// NaN stays in maximum and minimum. Without elements: sum 0, product 1, mean NaN, maximum -inf, minimum +inf, any
/// false, all true; mean, maximum and minimum of no integers are refused.
/// Stored integers: docs/htp-arithmetic.md, "Reductions"; the chip has no product and no sum of squares.
[[nodiscard]] OpDef reduce_op(std::string_view name, std::string_view doc, Reduction reduction);

}  // namespace htpipe::ops
