// Copies of n-dimensional blocks between two layouts: what slices, splits, tiles, pads, joins and permutations share.
// Elements are bytes of a size; their type does not matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensor/tensor.h"

namespace htpipe::kernels {

/// Elements between neighbours along each axis of a contiguous row-major tensor.
[[nodiscard]] std::vector<std::int64_t> strides_of(const Shape& shape);

/// A copy made ready to run: neighbouring axes that are contiguous on both sides are one axis. Const and thread-safe.
class StridedCopy {
 public:
  /// `from` and `to` are strides in elements; `from` may be 0 (repetition) or negative.
  struct Axis {
    std::int64_t size;
    std::int64_t from;
    std::int64_t to;
  };

  /// Axes from the outermost to the innermost of the target. Offsets in elements. `element_size` is 1, 2, 4 or 8.
  StridedCopy(const std::vector<Axis>& axes, std::size_t element_size, std::int64_t from_offset = 0,
              std::int64_t to_offset = 0);

  /// The target of an axis of size 0 is not touched. The blocks must not overlap.
  void run(const void* from, void* to) const { run(from, to, 0, parts()); }

  /// The copy in parts that may run in any order, or at the same time; each has about `part_bytes`.
  [[nodiscard]] std::int64_t parts() const { return parts_; }
  [[nodiscard]] std::int64_t part_bytes() const { return part_bytes_; }
  void run(const void* from, void* to, std::int64_t first_part, std::int64_t last_part) const;

 private:
  template <std::size_t kSize>
  void copy_block(const std::byte* from, std::byte* to, std::int64_t tile) const;

  std::vector<Axis> outer_;  ///< strides in bytes
  Axis row_{1, 0, 0};        ///< with tiles: the axis along which the source is contiguous
  Axis inner_{1, 0, 0};
  std::size_t element_size_;
  std::int64_t from_offset_;
  std::int64_t to_offset_;
  bool tiled_ = false;
  std::int64_t tiles_ = 1;  ///< groups of rows of a tiled block
  std::int64_t tile_rows_ = 1;
  std::int64_t parts_ = 0;
  std::int64_t part_bytes_ = 0;
};

}  // namespace htpipe::kernels
