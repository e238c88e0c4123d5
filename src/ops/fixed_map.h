// A table of stored values over all elements of a call, shared out among its threads.
#pragma once

#include <cstdint>

#include "kernels/fixed/elementwise.h"
#include "ops/lanes.h"

namespace htpipe::ops {

/// Elements that are worth a hand-over to another thread.
inline constexpr std::int64_t kMapGrain = 1 << 15;

inline void run_map(const kernels::UnaryMap& map, std::int64_t count, const KernelCall& call) {
  for_parts(call, count, kMapGrain, [&](std::int64_t begin, std::int64_t end, std::byte*) {
    map.run(call.operands[0], call.results[0], begin, end);
  });
}

}  // namespace htpipe::ops
