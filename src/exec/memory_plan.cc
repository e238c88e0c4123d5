#include "exec/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "exec/arena.h"
#include "exec/schedule.h"
#include "ops/reshape.h"

namespace htpipe {
namespace {

/// Values and the blocks of memory that they lie in.
struct Blocks {
  std::vector<const Value*> values;
  std::unordered_map<const Value*, std::size_t> of;
  std::vector<std::pair<const Value*, std::size_t>> spare;
  ScheduleProblem problem;

  std::size_t add(const Value* value, bool input) {
    const std::size_t block = new_block(value, input);
    join(value, block);
    return block;
  }
  std::size_t new_block(const Value* value, bool input) {
    // As the arena counts: what is empty has a place too.
    problem.bytes.push_back((std::max<std::size_t>(value->type.size_bytes(), 1) + 63) / 64 * 64);
    problem.there_from_start.push_back(input);
    problem.there_to_end.push_back(false);
    return problem.bytes.size() - 1;
  }
  void join(const Value* value, std::size_t block) {
    values.push_back(value);
    of[value] = block;
  }
};

void insert_once(std::vector<std::size_t>& items, std::size_t item) {
  if (std::find(items.begin(), items.end(), item) == items.end()) items.push_back(item);
}

Blocks blocks_of(std::span<const Node* const> nodes, std::span<const Value* const> inputs,
                 std::span<const Value* const> outputs, const std::function<bool(const Node&)>& shares) {
  Blocks blocks;
  std::unordered_map<const Value*, std::size_t> maker;
  for (const Value* input : inputs) {
    if (blocks.of.count(input) == 0) blocks.add(input, true);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = *nodes[i];
    ScheduleProblem::Step step;
    for (const Value* operand : node.operands) {
      if (operand == nullptr || operand->is_constant()) continue;
      insert_once(step.reads, blocks.of.at(operand));
      if (const auto at = maker.find(operand); at != maker.end()) insert_once(step.after, at->second);
    }
    for (const Value* result : node.results) {
      if (blocks.of.count(result) != 0) {  // given, though its node runs for another result
        const std::size_t block = blocks.new_block(result, false);
        blocks.spare.emplace_back(result, block);
        step.writes.push_back(block);
        continue;
      }
      const Value* source = node.operands.empty() ? nullptr : node.operands[0];
      const bool share = result == node.result() && source != nullptr && !source->is_constant() &&
                         source->type.size_bytes() == result->type.size_bytes() && shares(node);
      if (share) blocks.join(result, blocks.of.at(source));
      insert_once(step.writes, share ? blocks.of.at(source) : blocks.add(result, false));
      maker[result] = i;
    }
    blocks.problem.steps.push_back(std::move(step));
  }
  for (const Value* output : outputs) {
    if (!output->is_constant()) blocks.problem.there_to_end[blocks.of.at(output)] = true;
  }
  return blocks;
}

}  // namespace

std::size_t MemoryPlan::offset_of(const Value* value) const {
  const auto at = std::lower_bound(offsets.begin(), offsets.end(), value, [](const auto& item, const Value* wanted) {
    return std::less<>()(item.first, wanted);
  });
  HTPIPE_CHECK(at != offsets.end() && at->first == value, "a value without a place");
  return at->second;
}

std::size_t MemoryPlan::offset_of_result(const Value* value) const {
  for (const auto& [result, offset] : spare) {
    if (result == value) return offset;
  }
  return offset_of(value);
}

MemoryPlan plan_memory(std::span<const Node* const> nodes, std::span<const Value* const> inputs,
                       std::span<const Value* const> outputs, const std::function<bool(const Node&)>& shares) {
  const Blocks blocks = blocks_of(nodes, inputs, outputs, shares);
  const ScheduleProblem& problem = blocks.problem;
  MemoryPlan plan;
  const std::vector<std::size_t> order = best_order(problem);
  // A life is from the first step that touches a block to the last one; inputs are written before the first step.
  std::vector<Lifetime> lives;
  for (const std::size_t bytes : problem.bytes) lives.push_back({bytes, SIZE_MAX, 0});
  const auto touch = [&lives](std::size_t block, std::size_t step) {
    lives[block].first = std::min(lives[block].first, step);
    lives[block].last = std::max(lives[block].last, step);
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    plan.order.push_back(nodes[order[i]]);
    for (const std::size_t block : problem.steps[order[i]].reads) touch(block, i + 1);
    for (const std::size_t block : problem.steps[order[i]].writes) touch(block, i + 1);
  }
  for (std::size_t block = 0; block < lives.size(); ++block) {
    if (problem.there_from_start[block]) touch(block, 0);
    if (problem.there_to_end[block]) touch(block, order.size() + 1);
  }
  const ArenaPlan arena = plan_arena(lives);
  plan.arena_bytes = arena.size_bytes;
  plan.live_bytes = arena.live_bytes;
  for (const Value* value : blocks.values) plan.offsets.emplace_back(value, arena.offsets[blocks.of.at(value)]);
  for (const auto& [value, block] : blocks.spare) plan.spare.emplace_back(value, arena.offsets[block]);
  std::sort(plan.offsets.begin(), plan.offsets.end(),
            [](const auto& a, const auto& b) { return std::less<>()(a.first, b.first); });
  return plan;
}

MemoryPlan plan_memory(const Graph& graph) {
  std::vector<const Node*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  const std::vector<const Value*> inputs(graph.inputs().begin(), graph.inputs().end());
  const std::vector<const Value*> outputs(graph.outputs().begin(), graph.outputs().end());
  return plan_memory(nodes, inputs, outputs, [](const Node& node) { return ops::keeps_bytes(node); });
}

}  // namespace htpipe
