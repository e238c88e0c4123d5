#include "tensor/moved_axes.h"

namespace htpipe {

std::vector<MovedAxis> moved_axes(const Shape& from, const std::vector<std::int64_t>& order) {
  std::vector<std::int64_t> strides(from.size(), 1);
  for (std::size_t axis = from.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * from[axis];
  std::vector<MovedAxis> axes;
  for (const std::int64_t axis : order) {
    const std::int64_t extent = from[static_cast<std::size_t>(axis)];
    const std::int64_t stride = strides[static_cast<std::size_t>(axis)];
    if (extent == 1) continue;
    if (!axes.empty() && axes.back().from == stride * extent) {
      axes.back() = {axes.back().extent * extent, stride, 0};
    } else {
      axes.push_back({extent, stride, 0});
    }
  }
  if (axes.empty()) axes.push_back({1, 1, 1});
  std::int64_t to = 1;
  for (std::size_t i = axes.size(); i-- > 0; to *= axes[i].extent) axes[i].to = to;
  return axes;
}

}  // namespace htpipe
