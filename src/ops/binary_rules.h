// What the HTP computes for two stored values of an ElementWiseBinary. Formulas: docs/htp-arithmetic.md, "Elementwise".
#pragma once

#include "ir/op.h"
#include "kernels/fixed/elementwise.h"

namespace htpipe::ops {

/// The rule for operands and result of a node, on the unsigned view of stored values; comparisons give 1 and 0.
/// Errors: no-fixed-rule for what the chip does not compute, and for encodings that it does not take.
Result<kernels::Binary> binary_rule(const NodeView& node, const TensorType& result);

}  // namespace htpipe::ops
