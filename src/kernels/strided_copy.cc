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

/// Rows of a tile whose lines are shorter than that: it is copied column by column.
constexpr std::int64_t kNarrowRows = 2048;

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
  if (std::any_of(axes.begin(), axes.end(), [](const Axis& axis) { return axis.size == 0; })) return;
  outer_ = merged(axes);
  inner_ = {1, 1, 1};
  if (!outer_.empty()) {
    inner_ = outer_.back();
    outer_.pop_back();
  }
  const auto row =
      std::find_if(outer_.begin(), outer_.end(), [](const Axis& axis) { return axis.from == 1 && axis.to != 1; });
  tiled_ = row != outer_.end() && inner_.from != 1 && inner_.to == 1 && row->size >= kMinTiled;
  if (tiled_) {
    row_ = *row;
    outer_.erase(row);
    tile_rows_ = inner_.size >= kMinTiled ? kTile : kNarrowRows;
    tiles_ = (row_.size + tile_rows_ - 1) / tile_rows_;
  }
  parts_ = tiles_;
  for (const Axis& axis : outer_) parts_ *= axis.size;
  part_bytes_ = std::min(row_.size, tile_rows_) * inner_.size * size;
  const auto to_bytes = [size](Axis& axis) {
    axis.from *= size;
    axis.to *= size;
  };
  std::for_each(outer_.begin(), outer_.end(), to_bytes);
  to_bytes(row_);
  to_bytes(inner_);
}

template <std::size_t kSize>
void StridedCopy::copy_block(const std::byte* from, std::byte* to, std::int64_t tile) const {
  if (!tiled_) {
    if (inner_.from == static_cast<std::int64_t>(kSize) && inner_.to == inner_.from) {
      std::memcpy(to, from, static_cast<std::size_t>(inner_.size) * kSize);
    } else {
      copy_line<kSize>(from, to, inner_);
    }
    return;
  }
  const std::int64_t first = tile * tile_rows_;
  const std::int64_t rows = std::min(tile_rows_, row_.size - first);
  from += first * row_.from;
  to += first * row_.to;
  if (inner_.size < kMinTiled) {
    for (std::int64_t c = 0; c < inner_.size; ++c) {
      copy_line<kSize>(from + c * inner_.from, to + c * inner_.to, {rows, row_.from, row_.to});
    }
    return;
  }
  for (std::int64_t c = 0; c < inner_.size; c += kTile) {
    const std::int64_t columns = std::min(kTile, inner_.size - c);
    for (std::int64_t r = 0; r < rows; ++r) {
      copy_line<kSize>(from + r * row_.from + c * inner_.from, to + r * row_.to + c * inner_.to,
                       {columns, inner_.from, inner_.to});
    }
  }
}

void StridedCopy::run(const void* from, void* to, std::int64_t first_part, std::int64_t last_part) const {
  if (first_part >= last_part) return;
  const auto* source = static_cast<const std::byte*>(from) + from_offset_;
  std::byte* target = static_cast<std::byte*>(to) + to_offset_;
  std::vector<std::int64_t> index(outer_.size(), 0);
  std::int64_t rest = first_part / tiles_;
  for (std::size_t axis = outer_.size(); axis-- > 0; rest /= outer_[axis].size) {
    index[axis] = rest % outer_[axis].size;
    source += index[axis] * outer_[axis].from;
    target += index[axis] * outer_[axis].to;
  }
  std::int64_t tile = first_part % tiles_;
  for (std::int64_t part = first_part; part < last_part; ++part) {
    switch (element_size_) {
      case 1:
        copy_block<1>(source, target, tile);
        break;
      case 2:
        copy_block<2>(source, target, tile);
        break;
      case 4:
        copy_block<4>(source, target, tile);
        break;
      default:
        copy_block<8>(source, target, tile);
        break;
    }
    if (++tile < tiles_) continue;
    tile = 0;
    for (std::size_t axis = outer_.size(); axis-- > 0;) {
      const Axis& step = outer_[axis];
      source += step.from;
      target += step.to;
      if (++index[axis] < step.size) break;
      source -= step.from * step.size;
      target -= step.to * step.size;
      index[axis] = 0;
    }
  }
}

}  // namespace htpipe::kernels
