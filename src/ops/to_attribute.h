// What Convert, Quantize and Dequantize share: the attribute `to` and its shape rule.
#pragma once

#include "ir/op.h"

namespace htpipe::ops {

/// The attribute `to`: name of the result's data type.
[[nodiscard]] AttributeSpec to_attribute();

/// Same shape, dtype `to`. Errors: dtype-mismatch unless the operand and the result are of the kinds asked for.
Result<std::vector<TensorType>> infer_to(const NodeView& node, bool from_float, bool to_float);

}  // namespace htpipe::ops
