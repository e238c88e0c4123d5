#include "ops/movement.h"

#include <fmt/core.h>

namespace htpipe::ops {

Result<std::size_t> axis_of(const NodeView& node, std::string_view name, std::size_t rank) {
  const std::int64_t axis = node.attributes.integer(name);
  if (axis < 0 || axis >= static_cast<std::int64_t>(rank)) {
    return fail(Code::kUnsupportedForm, fmt::format("{} {} of rank {}", name, axis, rank));
  }
  return static_cast<std::size_t>(axis);
}

AxisSplit split_at(const Shape& shape, std::size_t axis) {
  AxisSplit split;
  for (std::size_t i = 0; i < axis; ++i) split.outer *= shape[i];
  split.size = shape[axis];
  for (std::size_t i = axis + 1; i < shape.size(); ++i) split.inner *= shape[i];
  return split;
}

TensorType reshaped(const NodeView& node, std::size_t operand, Shape shape) {
  return {node.type(operand).dtype, std::move(shape), std::nullopt};
}

std::function<Result<Kernel>(const KernelRequest&)> on_stored(Result<Kernel> (*kernel)(const KernelRequest&)) {
  return [kernel](const KernelRequest& request) -> Result<Kernel> {
    for (const TensorType* result : request.results) {
      HTPIPE_CHECK_OK(check_same_encoding(request.node.type(0), *result));
    }
    return kernel(request);
  };
}

Status check_same_encoding(const TensorType& from, const TensorType& to) {
  if (from.dtype == to.dtype && from.encoding == to.encoding) return {};
  return fail(Code::kNoFixedRule, fmt::format("moves {} to {}", to_string(from), to_string(to)));
}

}  // namespace htpipe::ops
