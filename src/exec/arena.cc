#include "exec/arena.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>

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

using Order = std::vector<std::size_t>;

/// Places the values in this order, each at the lowest offset that is free during its life. Gives up, with what it has,
/// when more than `most` is needed.
ArenaPlan place(const std::vector<Lifetime>& values, const Order& order, std::size_t most) {
  ArenaPlan plan;
  plan.offsets.assign(values.size(), 0);
  Order placed;
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (const std::size_t index : order) {
    const Lifetime& value = values[index];
    taken.clear();
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
    if (plan.size_bytes > most) return plan;
    placed.push_back(index);
  }
  return plan;
}

/// Most values for which more than the first order is tried.
constexpr std::size_t kFewValues = 4000;
/// Shuffles that are tried where nothing better comes close to the bound.
constexpr int kShuffles = 24;

}  // namespace

ArenaPlan plan_arena(const std::vector<Lifetime>& values) {
  const std::size_t bound = largest_live_sum(values);
  Order order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto length = [&](std::size_t i) { return values[i].last - values[i].first + 1; };
  const auto by = [&](auto before) {
    Order sorted = order;
    std::stable_sort(sorted.begin(), sorted.end(), before);
    return sorted;
  };
  const Order by_size = by([&](std::size_t a, std::size_t b) { return values[a].size_bytes > values[b].size_bytes; });
  ArenaPlan best = place(values, by_size, SIZE_MAX);
  const auto try_order = [&](const Order& other) {
    ArenaPlan plan = place(values, other, best.size_bytes - 1);
    if (plan.size_bytes < best.size_bytes) best = std::move(plan);
  };
  const bool close = best.size_bytes <= bound + bound / 50;
  if (!close && values.size() <= kFewValues) {
    try_order(by([&](std::size_t a, std::size_t b) {
      return values[a].size_bytes * length(a) > values[b].size_bytes * length(b);
    }));
    try_order(by([&](std::size_t a, std::size_t b) { return length(a) > length(b); }));
    try_order(by([&](std::size_t a, std::size_t b) { return values[a].first < values[b].first; }));
    try_order(by([&](std::size_t a, std::size_t b) { return values[a].last > values[b].last; }));
    // Values of almost the same size in another order; the generator is the standard's, so the same everywhere.
    std::mt19937 random(1);
    for (int i = 0; i < kShuffles && best.size_bytes > bound + bound / 20; ++i) {
      std::vector<std::size_t> size(values.size());
      for (std::size_t v = 0; v < size.size(); ++v) size[v] = values[v].size_bytes / 128 * (96 + random() % 65);
      try_order(by([&](std::size_t a, std::size_t b) { return size[a] > size[b]; }));
    }
  }
  best.live_bytes = bound;
  return best;
}

}  // namespace htpipe
