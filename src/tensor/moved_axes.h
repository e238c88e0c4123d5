// The axes of a permutation, without those that do not move on their own.
#pragma once

#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace htpipe {

/// An axis of the result of a permutation: its extent, and how far apart its elements are on both sides.
struct MovedAxis {
  std::int64_t extent;
  std::int64_t from;
  std::int64_t to;
};

/// Axes in the order of the result. Those that stay together are one, those of a single element are left out; one of
/// extent 1 when nothing else is left.
[[nodiscard]] std::vector<MovedAxis> moved_axes(const Shape& from, const std::vector<std::int64_t>& order);

}  // namespace htpipe
