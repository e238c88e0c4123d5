// What TopK, Argmax and Argmin share: the order of elements.
// Rule: as in PyTorch, Argmax and Argmin both find NaN, and TopK takes NaN for larger than every number.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "ir/op.h"

namespace htpipe::ops {

/// True when `a` comes strictly before `b`; NaN comes first or last.
template <typename T>
[[nodiscard]] bool comes_before(T a, T b, bool largest, bool nan_first) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a) || std::isnan(b)) return std::isnan(nan_first ? a : b) && !std::isnan(nan_first ? b : a);
  }
  return largest ? a > b : a < b;
}

/// The definition of Argmax (`largest`) or Argmin.
[[nodiscard]] OpDef arg_op(std::string_view name, std::string_view doc, bool largest);

}  // namespace htpipe::ops
