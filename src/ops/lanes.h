// How a kernel shares its work out among the threads of a call.
// Invariant: parts are independent, so no result depends on the number of lanes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/parallel.h"
#include "ir/op.h"

namespace htpipe::ops {

/// Items of a part when `lanes` threads take parts of `count` items in turn: at most four parts for each, because threads
/// are not equally fast, and such that all end together.
[[nodiscard]] inline std::int64_t even_part(std::int64_t count, std::int64_t lanes) {
  const std::int64_t largest = (count + lanes - 1) / lanes;  // one part each
  for (std::int64_t size = (count + 4 * lanes - 1) / (4 * lanes); size < largest; ++size) {
    const std::int64_t parts = (count + size - 1) / size;
    if ((parts + lanes - 1) / lanes * size <= largest) return size;  // the busiest thread has no more to do
  }
  return largest;
}

/// Calls body(begin, end, scratch of the lane) for parts that make up [0, count). Every part but the last has a
/// multiple of `grain` items: as many as are worth a hand-over to another thread (some microseconds of work).
template <typename Body>
void for_parts(const KernelCall& call, std::int64_t count, std::int64_t grain, Body body) {
  const std::int64_t grains = (count + grain - 1) / grain;
  if (grains <= 1 || call.lanes.count <= 1) {
    if (count > 0) body(std::int64_t{0}, count, call.lanes.scratch_of(0));
    return;
  }
  const std::int64_t size = even_part(grains, call.lanes.count) * grain;
  parallel_for((count + size - 1) / size,
               [&](std::int64_t part, int lane) {
                 body(part * size, std::min(count, (part + 1) * size), call.lanes.scratch_of(lane));
               },
               call.lanes.count);
}

}  // namespace htpipe::ops
