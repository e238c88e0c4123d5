#include "ops/indices.h"

#include <fmt/core.h>

namespace htpipe::ops {
namespace {

Status check_dtype(const NodeView& node, std::size_t operand) {
  const DType dtype = node.type(operand).dtype;
  if ((dtype == DType::kI32 || dtype == DType::kI64) && !node.type(operand).encoding) return {};
  return fail(Code::kDtypeMismatch, fmt::format("indices are i32 or i64, not {}", name_of(dtype)));
}

Status out_of_range(std::int64_t index, std::int64_t size) {
  return fail(Code::kUnsupportedForm, fmt::format("index {} of {}", index, size));
}

}  // namespace

Status check_indices(const NodeView& node, std::size_t operand, std::int64_t size) {
  HTPIPE_CHECK_OK(check_dtype(node, operand));
  const Tensor* constant = node.constants[operand];
  if (constant == nullptr) return {};
  const IndexReader indices(constant->bytes().data(), constant->dtype());
  for (std::int64_t i = 0; i < constant->count(); ++i) {
    if (position_of(indices[i], size) < 0) return out_of_range(indices[i], size);
  }
  return {};
}

Status check_positions(const NodeView& node, std::size_t operand, const Shape& data, std::size_t first) {
  HTPIPE_CHECK_OK(check_dtype(node, operand));
  const Tensor* constant = node.constants[operand];
  if (constant == nullptr || constant->count() == 0) return {};
  const std::int64_t depth = constant->shape().back();
  const IndexReader indices(constant->bytes().data(), constant->dtype());
  for (std::int64_t i = 0; i < constant->count(); ++i) {
    const std::int64_t size = data[first + static_cast<std::size_t>(i % depth)];
    if (position_of(indices[i], size) < 0) return out_of_range(indices[i], size);
  }
  return {};
}

Status check_lowered_indices(const NodeView& node) {
  if (node.type(1).dtype != DType::kI32) {
    return fail(Code::kUnsupportedForm, "the chip takes 32-bit indices only; run the pass narrow_indices");
  }
  const Tensor* constant = node.constants[1];
  if (constant == nullptr) return {};
  const auto indices = constant->data<std::int32_t>();
  for (const std::int32_t index : indices) {
    if (index < 0) {
      return fail(Code::kUnsupportedForm, "the chip reads a negative index as 0; run the pass narrow_indices");
    }
  }
  return {};
}

SlicePicker::SlicePicker(const Shape& data, std::size_t first, std::size_t depth) {
  for (std::size_t axis = first; axis < data.size(); ++axis) {
    batch_ *= data[axis];
    if (axis < first + depth) {
      sizes_.push_back(data[axis]);
    } else {
      slice_ *= data[axis];
    }
  }
}

std::int64_t SlicePicker::offset(const IndexReader& index, std::int64_t row) const {
  const auto depth = static_cast<std::int64_t>(sizes_.size());
  std::int64_t offset = 0;
  for (std::int64_t i = 0; i < depth; ++i) {
    const std::int64_t size = sizes_[static_cast<std::size_t>(i)];
    const std::int64_t at = position_of(index[row * depth + i], size);
    if (at < 0) return -1;
    offset = offset * size + at;
  }
  return offset * slice_;
}

Status check_element_shapes(const Shape& data, const Shape& indices, std::size_t axis) {
  bool fits = data.size() == indices.size();
  for (std::size_t i = 0; fits && i < data.size(); ++i) fits = i == axis || indices[i] <= data[i];
  if (fits) return {};
  return fail(Code::kShapeMismatch, fmt::format("indices {} for {}", to_string(indices), to_string(data)));
}

}  // namespace htpipe::ops
