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
  std::vector<std::int64_t> change(steps + 1, 0);  // of the sum, at the begin of a step
  for (const Lifetime& value : values) {
    const auto bytes = static_cast<std::int64_t>(aligned(value.size_bytes));
    change[value.first] += bytes;
    change[value.last + 1] -= bytes;
  }
  std::int64_t live = 0;
  std::int64_t most = 0;
  for (const std::int64_t bytes : change) {
    live += bytes;
    most = std::max(most, live);
  }
  return static_cast<std::size_t>(most);
}

using Order = std::vector<std::size_t>;

using Range = std::pair<std::size_t, std::size_t>;  ///< begin and end in the arena

/// Values that have a place, found by when they live. Short lives are kept by step, so that a long chain of values costs
/// no more than its length; long ones by place, so that they need not be sorted.
class Placed {
 public:
  explicit Placed(const std::vector<Lifetime>& values) : values_(values) {
    for (const Lifetime& value : values) steps_.resize(std::max(steps_.size(), value.last + 1));
  }
  void add(std::size_t index, std::size_t offset) {
    const Lifetime& value = values_[index];
    const Item item = {index, {offset, offset + aligned(value.size_bytes)}};
    if (!is_short(value)) {
      const auto later = [](const Range& place, const Item& other) { return place < other.place; };
      long_lived_.insert(std::upper_bound(long_lived_.begin(), long_lived_.end(), item.place, later), item);
      return;
    }
    short_lived_.push_back(item);
    for (std::size_t step = value.first; step <= value.last; ++step) steps_[step].push_back(item);
  }
  /// The places of all values that live at a time with `value`, in order.
  void beside(const Lifetime& value, std::vector<Range>& taken) const {
    taken.clear();
    const auto visit = [&](const std::vector<Item>& candidates) {
      for (const Item& item : candidates) {
        const Lifetime& other = values_[item.index];
        if (other.first <= value.last && value.first <= other.last) taken.push_back(item.place);
      }
    };
    visit(long_lived_);
    const auto middle = static_cast<std::ptrdiff_t>(taken.size());
    if (is_short(value)) {
      for (std::size_t step = value.first; step <= value.last; ++step) visit(steps_[step]);
    } else {
      visit(short_lived_);
    }
    std::sort(taken.begin() + middle, taken.end());
    std::inplace_merge(taken.begin(), taken.begin() + middle, taken.end());
  }

 private:
  struct Item {
    std::size_t index;
    Range place;
  };
  static bool is_short(const Lifetime& value) { return value.last - value.first < 16; }
  const std::vector<Lifetime>& values_;
  std::vector<Item> long_lived_;  ///< by place
  std::vector<Item> short_lived_;
  std::vector<std::vector<Item>> steps_;  ///< short-lived ones by step
};

/// Places the values in this order, each at the lowest offset that is free during its life. Gives up, with what it has,
/// when more than `most` is needed.
ArenaPlan place(const std::vector<Lifetime>& values, const Order& order, std::size_t most) {
  ArenaPlan plan;
  plan.offsets.assign(values.size(), 0);
  Placed placed(values);
  std::vector<Range> taken;
  for (const std::size_t index : order) {
    const Lifetime& value = values[index];
    placed.beside(value, taken);
    std::size_t offset = 0;
    for (const auto& [begin, end] : taken) {
      if (offset + aligned(value.size_bytes) <= begin) break;
      offset = std::max(offset, end);
    }
    plan.offsets[index] = offset;
    plan.size_bytes = std::max(plan.size_bytes, offset + aligned(value.size_bytes));
    if (plan.size_bytes > most) return plan;
    placed.add(index, offset);
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
