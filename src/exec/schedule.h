// The order in which nodes run, chosen so that as little as possible is alive at a time.
// Invariant: deterministic; every order keeps producers in front of their users.
#pragma once

#include <cstddef>
#include <vector>

namespace htpipe {

/// What scheduling needs to know of a graph. Blocks are pieces of memory; several values may share one.
struct ScheduleProblem {
  struct Step {
    std::vector<std::size_t> reads;   ///< blocks, each once
    std::vector<std::size_t> writes;  ///< blocks, each once; one that is read too is written by an alias of it
    std::vector<std::size_t> after;   ///< steps that make what is read, each once
  };
  std::vector<Step> steps;             ///< in an order that works
  std::vector<std::size_t> bytes;      ///< per block
  std::vector<bool> there_from_start;  ///< per block: an input
  std::vector<bool> there_to_end;      ///< per block: an output
};

/// Largest sum of blocks that are alive during one step (or before the first), in this order.
[[nodiscard]] std::size_t peak_of(const ScheduleProblem& problem, const std::vector<std::size_t>& order);

/// The best of several orders: the given one, those that take what frees most, those that follow one branch to its end.
[[nodiscard]] std::vector<std::size_t> best_order(const ScheduleProblem& problem);

}  // namespace htpipe
