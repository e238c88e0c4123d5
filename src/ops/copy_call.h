// A strided copy that is shared out among the threads of a call.
#pragma once

#include <algorithm>

#include "kernels/strided_copy.h"
#include "ops/lanes.h"

namespace htpipe::ops {

inline void share_copy(const KernelCall& call, const kernels::StridedCopy& copy, const void* from, void* to) {
  constexpr std::int64_t kGrainBytes = 1 << 16;  // that are worth a hand-over to another thread
  for_parts(call, copy.parts(), kGrainBytes / std::max<std::int64_t>(copy.part_bytes(), 1) + 1,
            [&](std::int64_t begin, std::int64_t end, std::byte*) { copy.run(from, to, begin, end); });
}

}  // namespace htpipe::ops
