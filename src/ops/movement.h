// What the operators that move elements share: checks of axes, shapes, encodings.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "ir/op.h"

namespace htpipe::ops {

/// The integer attribute `name` as an axis of a tensor of `rank` axes. Errors: unsupported-form.
Result<std::size_t> axis_of(const NodeView& node, std::string_view name, std::size_t rank);

/// Sizes of a tensor taken apart at an axis: [outer, size, inner].
struct AxisSplit {
  std::int64_t outer = 1;
  std::int64_t size = 1;
  std::int64_t inner = 1;
};
[[nodiscard]] AxisSplit split_at(const Shape& shape, std::size_t axis);

/// The type of operand `operand` with another shape and without an encoding.
[[nodiscard]] TensorType reshaped(const NodeView& node, std::size_t operand, Shape shape);

/// A fixed-point kernel that moves stored integers as `kernel` moves plain values. Errors: no-fixed-rule unless every
/// result has the data type and the encoding of operand 0.
[[nodiscard]] std::function<Result<Kernel>(const KernelRequest&)> on_stored(
    Result<Kernel> (*kernel)(const KernelRequest&));

/// Errors: no-fixed-rule unless both have the same data type and encoding, so that stored integers may be copied.
Status check_same_encoding(const TensorType& from, const TensorType& to);

}  // namespace htpipe::ops
