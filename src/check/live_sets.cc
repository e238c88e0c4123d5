#include "check/live_sets.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "exec/memory_plan.h"

namespace htpipe::check {

std::uint64_t stored_bytes(const TensorType& type) {
  const auto bits = type.encoding ? static_cast<std::uint64_t>(type.encoding->bits) : 8;
  const std::uint64_t bytes = type.size_bytes();
  return bits < 8 ? (bytes * bits + 7) / 8 : bytes;
}

std::uint64_t tiled_bytes(const TensorType& type) {
  const std::uint64_t size = size_of(type.dtype);
  const std::uint64_t tile[] = {32, size > 1 ? 4U : 8U, 8};
  std::uint64_t bytes = size;
  for (std::size_t i = 0; i < type.shape.size(); ++i) {
    const auto extent = static_cast<std::uint64_t>(type.shape[type.shape.size() - 1 - i]);
    bytes *= i < std::size(tile) ? (extent + tile[i] - 1) / tile[i] * tile[i] : extent;
  }
  return bytes;
}

std::vector<LiveStep> live_sets(const Graph& graph) {
  const MemoryPlan plan = plan_memory(graph);
  const std::size_t count = plan.order.size();
  std::map<const Value*, std::size_t> last;  // step of the last reader
  for (std::size_t i = 0; i < count; ++i) {
    for (const Value* operand : plan.order[i]->operands) {
      if (operand != nullptr && !operand->is_constant()) last[operand] = i;
    }
  }
  for (const Value* output : graph.outputs()) {
    if (!output->is_constant()) last[output] = count;
  }
  std::vector<LiveStep> steps(count);
  struct Bytes {
    std::uint64_t plain = 0;
    std::uint64_t tiled = 0;
  };
  std::vector<Bytes> dies(count + 1);
  Bytes live;
  const auto enter = [&](const Value* value, std::size_t step) {
    const auto at = last.find(value);
    Bytes& dying = dies[at == last.end() ? step : at->second];
    live.plain += stored_bytes(value->type);
    live.tiled += tiled_bytes(value->type);
    dying.plain += stored_bytes(value->type);
    dying.tiled += tiled_bytes(value->type);
  };
  if (count > 0) {
    for (const Value* input : graph.inputs()) enter(input, 0);
  }
  for (std::size_t i = 0; i < count; ++i) {
    LiveStep& step = steps[i];
    step.node = plan.order[i];
    std::set<const Value*> seen;
    for (const Value* operand : step.node->operands) {
      if (operand == nullptr || !seen.insert(operand).second) continue;
      (operand->is_constant() ? step.weights : step.read) += stored_bytes(operand->type);
    }
    for (const Value* result : step.node->results) {
      step.written += stored_bytes(result->type);
      enter(result, i);
    }
    step.live = live.plain;
    step.tiled = live.tiled;
    live.plain -= dies[i].plain;
    live.tiled -= dies[i].tiled;
  }
  return steps;
}

}  // namespace htpipe::check
