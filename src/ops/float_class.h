// What IsNan and IsInf share: a question about the bits of every element of a float type.
#pragma once

#include <cstdint>

#include "ir/op.h"

namespace htpipe::ops {

enum class FloatClass : std::uint8_t { kNan, kInfinite };
/// The signs that count; NaN has both.
struct Signs {
  bool negative = true;
  bool positive = true;
};

/// bool of the operand's shape. Errors: dtype-mismatch unless the operand is a plain float.
Result<std::vector<TensorType>> infer_class(const NodeView& node);
/// 1 where an element belongs to `wanted`.
Result<Kernel> class_kernel(const KernelRequest& request, FloatClass wanted, Signs signs);

}  // namespace htpipe::ops
