// Index operands (i32 or i64; negative ones count from the end) of the Gather and Scatter family.
// Rule: constant indices are checked when the graph is built. Those known only when it runs are checked then: one that
// is out of range reads a zero and writes nothing, never foreign memory.
#pragma once

#include <cstdint>

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

}  // namespace htpipe::ops
