// Index operands (i32 or i64; negative ones count from the end) of the Gather and Scatter family.
// Rule: constant indices are checked when the graph is built. Those known only when it runs are checked then: one that
// is out of range reads a zero and writes nothing, never foreign memory.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "ir/op.h"

namespace htpipe::ops {

/// Position within [0, size), or -1 when `index` is out of range.
[[nodiscard]] inline std::int64_t position_of(std::int64_t index, std::int64_t size) {
  const std::int64_t position = index < 0 ? index + size : index;
  return position >= 0 && position < size ? position : -1;
}

/// Reads an index operand of either data type.
class IndexReader {
 public:
  IndexReader(const void* data, DType dtype) : data_(data), wide_(dtype == DType::kI64) {}
  [[nodiscard]] std::int64_t operator[](std::int64_t i) const {
    return wide_ ? static_cast<const std::int64_t*>(data_)[i] : static_cast<const std::int32_t*>(data_)[i];
  }

 private:
  const void* data_;
  bool wide_;
};

/// Errors: dtype-mismatch unless the operand is i32 or i64; unsupported-form when it is constant and an index in it is
/// not within [-size, size).
Status check_indices(const NodeView& node, std::size_t operand, std::int64_t size);

/// The same where the last axis of the operand holds positions in the axes `first`, `first` + 1 … of `data`.
Status check_positions(const NodeView& node, std::size_t operand, const Shape& data, std::size_t first);

/// What the chip takes as indices (operand 1): 32-bit numbers, constant ones from 0 up. Errors: unsupported-form.
Status check_lowered_indices(const NodeView& node);

/// Calls body(i, base) for every element i of a tensor of shape `indices`: `base` is where the same position lies in a
/// tensor with `strides`, but with 0 along `axis`.
template <typename Body>
void for_each_element(const Shape& indices, const std::vector<std::int64_t>& strides, std::size_t axis, Body body) {
  const std::int64_t count = element_count(indices);
  std::vector<std::int64_t> position(indices.size(), 0);
  std::int64_t base = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    body(i, base);
    for (std::size_t at = indices.size(); at-- > 0;) {
      const std::int64_t step = at == axis ? 0 : strides[at];
      base += step;
      if (++position[at] < indices[at]) break;
      base -= step * indices[at];
      position[at] = 0;
    }
  }
}

/// Finds the slices of a tensor that rows of positions name, as GatherNd and ScatterNd do.
class SlicePicker {
 public:
  /// Positions of `depth` indices in the axes from `first` on.
  SlicePicker(const Shape& data, std::size_t first, std::size_t depth);

  [[nodiscard]] std::int64_t slice() const { return slice_; }  ///< elements of one slice
  [[nodiscard]] std::int64_t batch() const { return batch_; }  ///< elements from axis `first` on
  /// Where the slice of row `row` begins within its batch; -1 when an index is out of range.
  [[nodiscard]] std::int64_t offset(const IndexReader& index, std::int64_t row) const;

 private:
  std::vector<std::int64_t> sizes_;
  std::int64_t slice_ = 1;
  std::int64_t batch_ = 1;
};

/// Shapes of GatherElements and ScatterElements: the same rank, and along every other axis than `axis` at most as many
/// indices as data. Errors: shape-mismatch.
Status check_element_shapes(const Shape& data, const Shape& indices, std::size_t axis);

}  // namespace htpipe::ops
