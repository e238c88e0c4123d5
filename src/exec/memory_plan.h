// Where the values of an execution lie, and in which order nodes run.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "ir/graph.h"

namespace htpipe {

struct MemoryPlan {
  std::vector<const Node*> order;
  std::vector<std::pair<const Value*, std::size_t>> offsets;  ///< of inputs and results in the arena, sorted by value
  /// Places for results that a node makes besides those that are wanted, though they are inputs of the plan.
  std::vector<std::pair<const Value*, std::size_t>> spare;
  std::size_t arena_bytes = 0;
  /// Largest sum of values that are alive at the same time in this order: no arena can be smaller.
  std::size_t live_bytes = 0;

  /// Of an input or a result, where it is read.
  [[nodiscard]] std::size_t offset_of(const Value* value) const;
  /// Where a node writes a result.
  [[nodiscard]] std::size_t offset_of_result(const Value* value) const;
};

/// Plans the execution of `nodes` (in an order that works), which compute from `inputs` and constants what `outputs`
/// need. A node for which `shares` is true gets its first result where its operand 0 lies; elementwise nodes write over
/// an operand that nobody reads afterwards.
[[nodiscard]] MemoryPlan plan_memory(std::span<const Node* const> nodes, std::span<const Value* const> inputs,
                                     std::span<const Value* const> outputs,
                                     const std::function<bool(const Node&)>& shares);

/// The plan of a whole graph.
[[nodiscard]] MemoryPlan plan_memory(const Graph& graph);

}  // namespace htpipe
