// What ScatterElements and ScatterNd share: how an update meets the element that is there.
// Rule: updates are applied one after the other in the order of the operand, so the last of several wins, and the
// result of every reduction is rounded to the data type before the next.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/result.h"
#include "ir/op.h"

namespace htpipe::ops {

/// The attribute `reduction`: none, add, mul, max or min.
[[nodiscard]] AttributeSpec reduction_attribute();

/// Combines `count` elements: to[i] = to[i] (reduction) from[i].
using Combine = std::function<void(std::byte* to, const std::byte* from, std::int64_t count)>;

/// Integers wrap around; for bool add and max are "or", mul and min are "and"; NaN stays in max and min.
/// Errors: unsupported-form for another word.
Result<Combine> combine_of(std::string_view reduction, DType dtype);

/// Data, indices and updates: the result has the type of the data. Errors: dtype-mismatch, unsupported-form.
Result<std::vector<TensorType>> infer_scatter(const NodeView& node);

/// Errors: no-fixed-rule unless data, updates and result have one encoding and stored integers may be compared or copied.
Status check_scatter_encodings(const KernelRequest& request);

}  // namespace htpipe::ops
