#include "kernels/strided_copy.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace htpipe::kernels {
namespace {

using Axis = StridedCopy::Axis;

/// Rows and columns of a tile: both sides of it stay in the first-level cache.
constexpr std::int64_t kTile = 32;

/// Below this a tile costs more than it saves.
constexpr std::int64_t kMinTiled = 4;

std::vector<Axis> merged(const std::vector<Axis>& axes) {
  std::vector<Axis> result;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (!result.empty() && result.back().from == axis.from * axis.size && result.back().to == axis.to * axis.size) {
      result.back() = {result.back().size * axis.size, axis.from, axis.to};
    } else {
      result.push_back(axis);
    }
  }
  return result;
}

template <std::size_t kSize>
void copy_line(const std::byte* from, std::byte* to, const Axis& axis) {
  for (std::int64_t i = 0; i < axis.size; ++i) std::memcpy(to + i * axis.to, from + i * axis.from, kSize);
}

template <std::size_t kSize>
void copy_tiles(const std::byte* from, std::byte* to, const Axis& row, const Axis& inner) {
  for (std::int64_t r0 = 0; r0 < row.size; r0 += kTile) {
    const std::int64_t rows = std::min(kTile, row.size - r0);
    for (std::int64_t c0 = 0; c0 < inner.size; c0 += kTile) {
      const std::int64_t columns = std::min(kTile, inner.size - c0);
      for (std::int64_t r = r0; r < r0 + rows; ++r) {
        copy_line<kSize>(from + r * row.from + c0 * inner.from, to + r * row.to + c0 * inner.to,
                         {columns, inner.from, inner.to});
      }
    }
  }
}

template <std::size_t kSize>
void copy_block(const std::byte* from, std::byte* to, const Axis& row, const Axis& inner, bool tiled) {
  if (inner.from == static_cast<std::int64_t>(kSize) && inner.to == inner.from) {
    std::memcpy(to, from, static_cast<std::size_t>(inner.size) * kSize);
  } else if (tiled) {
    copy_tiles<kSize>(from, to, row, inner);
  } else {
    copy_line<kSize>(from, to, inner);
  }
}

}  // namespace

std::vector<std::int64_t> strides_of(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

StridedCopy::StridedCopy(const std::vector<Axis>& axes, std::size_t element_size, std::int64_t from_offset,
                         std::int64_t to_offset)
    : element_size_(element_size), from_offset_(from_offset), to_offset_(to_offset) {
  HTPIPE_CHECK(element_size == 1 || element_size == 2 || element_size == 4 || element_size == 8, "element size");
  const auto size = static_cast<std::int64_t>(element_size);
  from_offset_ *= size;
  to_offset_ *= size;
  empty_ = std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.size == 0; });
  if (empty_) return;
  outer_ = merged(axes);
  inner_ = {1, 1, 1};
  if (!outer_.empty()) {
    inner_ = outer_.back();
    outer_.pop_back();
  }
  const auto row =
      std::find_if(outer_.begin(), outer_.end(), [](const Axis& axis) { return axis.from == 1 && axis.to != 1; });
  tiled_ =
      row != outer_.end() && inner_.from != 1 && inner_.to == 1 && row->size >= kMinTiled && inner_.size >= kMinTiled;
  if (tiled_) {
    row_ = *row;
    outer_.erase(row);
  }
  const auto to_bytes = [size](Axis& axis) {
    axis.from *= size;
    axis.to *= size;
  };
  std::for_each(outer_.begin(), outer_.end(), to_bytes);
  to_bytes(row_);
  to_bytes(inner_);
}

void StridedCopy::run(const void* from, void* to) const {
  if (empty_) return;
  const auto* source = static_cast<const std::byte*>(from) + from_offset_;
  std::byte* target = static_cast<std::byte*>(to) + to_offset_;
  const auto copy = [this](const std::byte* block_from, std::byte* block_to) {
    switch (element_size_) {
      case 1:
        return copy_block<1>(block_from, block_to, row_, inner_, tiled_);
      case 2:
        return copy_block<2>(block_from, block_to, row_, inner_, tiled_);
      case 4:
        return copy_block<4>(block_from, block_to, row_, inner_, tiled_);
      default:
        return copy_block<8>(block_from, block_to, row_, inner_, tiled_);
    }
  };
  std::vector<std::int64_t> index(outer_.size(), 0);
  while (true) {
    copy(source, target);
    std::size_t axis = outer_.size();
    while (axis > 0) {
      const Axis& step = outer_[axis - 1];
      source += step.from;
      target += step.to;
      if (++index[axis - 1] < step.size) break;
      source -= step.from * step.size;
      target -= step.to * step.size;
      index[axis - 1] = 0;
      --axis;
    }
    if (axis == 0) return;
  }
}

}  // namespace htpipe::kernels
