#include "exec/arena.h"

#include <algorithm>
#include <numeric>

namespace htpipe {
namespace {

constexpr std::size_t kAlignment = 64;

std::size_t aligned(std::size_t size) {
  return (std::max<std::size_t>(size, 1) + kAlignment - 1) / kAlignment * kAlignment;
}

std::size_t largest_live_sum(const std::vector<Lifetime>& values) {
  std::size_t steps = 0;
  for (const Lifetime& value : values) steps = std::max(steps, value.last + 1);
  std::vector<std::size_t> live(steps, 0);
  for (const Lifetime& value : values) {
    for (std::size_t step = value.first; step <= value.last; ++step) live[step] += aligned(value.size_bytes);
  }
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

}  // namespace

ArenaPlan plan_arena(const std::vector<Lifetime>& values) {
  ArenaPlan plan;
  plan.offsets.assign(values.size(), 0);
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a].size_bytes > values[b].size_bytes; });
  std::vector<std::size_t> placed;
  for (const std::size_t index : order) {
    const Lifetime& value = values[index];
    std::vector<std::pair<std::size_t, std::size_t>> taken;
    for (const std::size_t other : placed) {
      if (values[other].first <= value.last && value.first <= values[other].last) {
        taken.emplace_back(plan.offsets[other], plan.offsets[other] + aligned(values[other].size_bytes));
      }
    }
    std::sort(taken.begin(), taken.end());
    std::size_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + aligned(value.size_bytes) <= begin) break;
      offset = std::max(offset, end);
    }
    plan.offsets[index] = offset;
    plan.size_bytes = std::max(plan.size_bytes, offset + aligned(value.size_bytes));
    placed.push_back(index);
  }
  plan.live_bytes = largest_live_sum(values);
  return plan;
}

}  // namespace htpipe
