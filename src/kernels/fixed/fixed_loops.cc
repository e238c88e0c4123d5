#include "kernels/fixed/fixed_loops.h"

#include <array>
#include <cstdlib>

#include "kernels/fixed/fixed_loops_sets.h"

namespace htpipe::kernels {
namespace {

struct Sets {
  std::array<FixedLoops, 4> sets;
  std::size_t count = 0;
};

const Sets& sets() {
  static const Sets all = [] {
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") != 0;
    const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                        __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
    Sets result;
    result.sets[result.count++] = fixed_loops_generic();
    if (avx2) result.sets[result.count++] = fixed_loops_avx2();
    if (avx512) result.sets[result.count++] = fixed_loops_avx512();
    if (avx512 && __builtin_cpu_supports("avx512vnni") != 0) result.sets[result.count++] = fixed_loops_vnni();
    return result;
  }();
  return all;
}

}  // namespace

std::span<const FixedLoops* const> all_fixed_loops() {
  static const std::array<const FixedLoops*, 4> pointers = [] {
    std::array<const FixedLoops*, 4> result = {};
    for (std::size_t i = 0; i < sets().count; ++i) result[i] = &sets().sets[i];
    return result;
  }();
  return {pointers.data(), sets().count};
}

const FixedLoops& fixed_loops() {
  static const FixedLoops& chosen = []() -> const FixedLoops& {
    const char* text = std::getenv("HTPIPE_ISA");
    const auto all = all_fixed_loops();
    if (text == nullptr) return *all.back();
    // The cap, or the best below it: the sets are in order.
    static constexpr std::array<std::string_view, 4> kOrder = {"generic", "avx2", "avx512", "vnni"};
    std::size_t cap = kOrder.size() - 1;
    for (std::size_t i = 0; i < kOrder.size(); ++i) {
      if (kOrder[i] == text) cap = i;
    }
    return *all[cap < all.size() ? cap : all.size() - 1];
  }();
  return chosen;
}

}  // namespace htpipe::kernels
