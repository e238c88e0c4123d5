// Placement of values with known life times in one block of memory.
#pragma once

#include <cstddef>
#include <vector>

namespace htpipe {

/// A value that lives from step `first` to step `last`, both included.
struct Lifetime {
  std::size_t size_bytes;
  std::size_t first;
  std::size_t last;
};

struct ArenaPlan {
  std::vector<std::size_t> offsets;  ///< per value, multiples of 64
  std::size_t size_bytes = 0;
  std::size_t live_bytes = 0;  ///< largest sum alive at one step: no plan can be smaller
};

/// Greedy: value after value at the lowest offset that is free during its life, the largest first; where that loses
/// memory, other orders too. Deterministic.
[[nodiscard]] ArenaPlan plan_arena(const std::vector<Lifetime>& values);

}  // namespace htpipe
