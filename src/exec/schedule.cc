#include "exec/schedule.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <tuple>

namespace htpipe {
namespace {

using Order = std::vector<std::size_t>;

/// Comparisons of steps after which an order is given up: graphs of many thousand independent nodes.
constexpr std::size_t kMostWork = 40'000'000;

std::int64_t as_signed(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

/// What is alive while steps run one after the other.
class Memory {
 public:
  explicit Memory(const ScheduleProblem& problem)
      : problem_(problem), alive_(problem.bytes.size(), false), readers_(problem.bytes.size(), 0) {
    for (const auto& step : problem.steps) {
      for (const std::size_t block : step.reads) ++readers_[block];
    }
    for (std::size_t block = 0; block < alive_.size(); ++block) {
      if (problem.there_from_start[block]) begin(block);
    }
    peak_ = live_;
    for (std::size_t block = 0; block < alive_.size(); ++block) {
      if (problem.there_from_start[block]) end_if_done(block);
    }
  }

  /// Bytes that a step adds while it runs.
  [[nodiscard]] std::size_t added(std::size_t step) const {
    std::size_t bytes = 0;
    for (const std::size_t block : problem_.steps[step].writes) bytes += alive_[block] ? 0 : problem_.bytes[block];
    return bytes;
  }
  /// Bytes that are alive after a step more than before it.
  [[nodiscard]] std::int64_t growth(std::size_t step) const {
    std::int64_t bytes = as_signed(added(step));
    for (const std::size_t block : problem_.steps[step].reads) {
      if (readers_[block] == 1 && !problem_.there_to_end[block] && !writes(step, block)) {
        bytes -= as_signed(problem_.bytes[block]);
      }
    }
    return bytes;
  }
  void run(std::size_t step) {
    for (const std::size_t block : problem_.steps[step].writes) begin(block);
    peak_ = std::max(peak_, live_);
    for (const std::size_t block : problem_.steps[step].reads) --readers_[block];
    for (const std::size_t block : problem_.steps[step].reads) end_if_done(block);
    for (const std::size_t block : problem_.steps[step].writes) end_if_done(block);
  }
  [[nodiscard]] std::size_t live() const { return live_; }
  [[nodiscard]] std::size_t peak() const { return peak_; }

 private:
  [[nodiscard]] bool writes(std::size_t step, std::size_t block) const {
    const auto& written = problem_.steps[step].writes;
    return std::find(written.begin(), written.end(), block) != written.end();
  }
  void begin(std::size_t block) {
    if (alive_[block]) return;
    alive_[block] = true;
    live_ += problem_.bytes[block];
  }
  void end_if_done(std::size_t block) {
    if (!alive_[block] || readers_[block] != 0 || problem_.there_to_end[block]) return;
    alive_[block] = false;
    live_ -= problem_.bytes[block];
  }

  const ScheduleProblem& problem_;
  std::vector<bool> alive_;
  std::vector<std::size_t> readers_;
  std::size_t live_ = 0;
  std::size_t peak_ = 0;
};

enum class Rule {
  kGrowth,  ///< least growth
  kPeak,    ///< no new peak where that can be, then least growth
  kBranch,  ///< what became ready last: a branch is followed to its end
};

/// Runs whatever is ready and best by the rule; nothing when there is too much to choose from.
std::optional<Order> by_rule(const ScheduleProblem& problem, Rule rule) {
  const std::size_t count = problem.steps.size();
  std::vector<std::size_t> waits(count, 0);
  std::vector<std::vector<std::size_t>> followers(count);
  for (std::size_t step = 0; step < count; ++step) {
    waits[step] = problem.steps[step].after.size();
    for (const std::size_t before : problem.steps[step].after) followers[before].push_back(step);
  }
  struct Ready {
    std::size_t step;
    std::size_t since;
  };
  std::vector<Ready> ready;
  for (std::size_t step = 0; step < count; ++step) {
    if (waits[step] == 0) ready.push_back({step, 0});
  }
  Memory memory(problem);
  Order order;
  std::size_t work = 0;
  while (!ready.empty()) {
    work += ready.size();
    if (work > kMostWork) return std::nullopt;
    using Score = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::size_t>;
    const auto score = [&](const Ready& item) -> Score {
      const std::int64_t growth = memory.growth(item.step);
      const std::int64_t over =
          std::max<std::int64_t>(as_signed(memory.live() + memory.added(item.step)) - as_signed(memory.peak()), 0);
      const std::int64_t newest = -as_signed(item.since);
      switch (rule) {
        case Rule::kGrowth:
          return {growth, 0, 0, item.step};
        case Rule::kPeak:
          return {over, growth, 0, item.step};
        case Rule::kBranch:
          break;
      }
      return {growth <= 0 ? 0 : 1, newest, growth, item.step};
    };
    std::size_t best = 0;
    Score best_score = score(ready[0]);
    for (std::size_t i = 1; i < ready.size(); ++i) {
      Score other = score(ready[i]);
      if (other < best_score) {
        best = i;
        best_score = other;
      }
    }
    const std::size_t step = ready[best].step;
    ready[best] = ready.back();
    ready.pop_back();
    memory.run(step);
    order.push_back(step);
    for (const std::size_t follower : followers[step]) {
      if (--waits[follower] == 0) ready.push_back({follower, order.size()});
    }
  }
  return order;
}

}  // namespace

std::size_t peak_of(const ScheduleProblem& problem, const std::vector<std::size_t>& order) {
  Memory memory(problem);
  for (const std::size_t step : order) memory.run(step);
  return memory.peak();
}

std::vector<std::size_t> best_order(const ScheduleProblem& problem) {
  Order best(problem.steps.size());
  std::iota(best.begin(), best.end(), std::size_t{0});
  std::size_t least = peak_of(problem, best);
  for (const Rule rule : {Rule::kPeak, Rule::kGrowth, Rule::kBranch}) {
    auto order = by_rule(problem, rule);
    if (!order) continue;
    const std::size_t peak = peak_of(problem, *order);
    if (peak >= least) continue;
    least = peak;
    best = std::move(*order);
  }
  return best;
}

}  // namespace htpipe
