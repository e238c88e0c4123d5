// How a kernel shares its work out among the threads of a call.
// Invariant: parts are independent, so no result depends on the number of lanes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/parallel.h"
#include "ir/op.h"

namespace htpipe::ops {

/// Calls body(begin, end, scratch of the lane) for parts that make up [0, count). Every part but the last has a
/// multiple of `grain` items: as many as are worth a hand-over to another thread (some ten microseconds of work).
template <typename Body>
void for_parts(const KernelCall& call, std::int64_t count, std::int64_t grain, Body body) {
  const std::int64_t grains = (count + grain - 1) / grain;
  // A few parts for each lane: threads are not equally fast.
  const std::int64_t parts = std::min<std::int64_t>(grains, call.lanes.count > 1 ? 4 * call.lanes.count : 1);
  if (parts <= 1) {
    if (count > 0) body(std::int64_t{0}, count, call.lanes.scratch_of(0));
    return;
  }
  const std::int64_t size = (grains + parts - 1) / parts * grain;
  parallel_for((count + size - 1) / size,
               [&](std::int64_t part, int lane) {
                 body(part * size, std::min(count, (part + 1) * size), call.lanes.scratch_of(lane));
               },
               call.lanes.count);
}

}  // namespace htpipe::ops
