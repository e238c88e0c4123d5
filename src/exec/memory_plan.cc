#include "exec/memory_plan.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <unordered_map>

#include "base/check.h"
#include "exec/arena.h"
#include "exec/schedule.h"
#include "ops/in_place.h"

namespace htpipe {
namespace {

/// Values and the blocks of memory that they lie in.
struct Blocks {
  std::vector<const Value*> values;
  std::unordered_map<const Value*, std::size_t> of;
  std::vector<std::pair<const Value*, std::size_t>> spare;
  std::vector<std::size_t> taken_by;  ///< per block: the one that its values lie in; itself at first
  ScheduleProblem problem;

  /// The block that a value lies in, which another may have taken over.
  [[nodiscard]] std::size_t place_of(const Value* value) const {
    std::size_t block = of.at(value);
    while (taken_by[block] != block) block = taken_by[block];
    return block;
  }
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
    taken_by.push_back(problem.bytes.size() - 1);
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

/// Whether a result is given, so that its node's is thrown away.
bool is_spare(const Blocks& blocks, const Value* value) {
  return std::any_of(blocks.spare.begin(), blocks.spare.end(),
                     [value](const auto& item) { return item.first == value; });
}

/// When the values of a block are touched first and last, counted in steps from 1; inputs are written at 0.
std::vector<Lifetime> lives_of(const ScheduleProblem& problem, const std::vector<std::size_t>& order) {
  std::vector<Lifetime> lives;
  for (const std::size_t bytes : problem.bytes) lives.push_back({bytes, SIZE_MAX, 0});
  const auto touch = [&lives](std::size_t block, std::size_t step) {
    lives[block].first = std::min(lives[block].first, step);
    lives[block].last = std::max(lives[block].last, step);
  };
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const std::size_t block : problem.steps[order[i]].reads) touch(block, i + 1);
    for (const std::size_t block : problem.steps[order[i]].writes) touch(block, i + 1);
  }
  for (std::size_t block = 0; block < lives.size(); ++block) {
    if (problem.there_from_start[block]) touch(block, 0);
    if (problem.there_to_end[block]) touch(block, order.size() + 1);
  }
  return lives;
}

/// Lets results take over the blocks of operands that nobody reads afterwards.
void take_over(const std::vector<const Node*>& order, Blocks& blocks, std::vector<Lifetime>& lives) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Node& node = *order[i];
    for (std::size_t operand = 0; operand < node.operands.size(); ++operand) {
      if (!ops::may_overwrite(node, operand) || is_spare(blocks, node.result())) continue;
      const std::size_t old_block = blocks.place_of(node.operands[operand]);
      const std::size_t new_block = blocks.place_of(node.result());
      if (old_block == new_block || lives[old_block].last != i + 1) continue;
      blocks.taken_by[new_block] = old_block;
      lives[old_block].last = lives[new_block].last;
      break;
    }
  }
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
  Blocks blocks = blocks_of(nodes, inputs, outputs, shares);
  MemoryPlan plan;
  const std::vector<std::size_t> order = best_order(blocks.problem);
  for (const std::size_t step : order) plan.order.push_back(nodes[step]);
  std::vector<Lifetime> lives = lives_of(blocks.problem, order);
  take_over(plan.order, blocks, lives);
  // Only blocks that were not taken over need a place.
  std::vector<std::size_t> index(lives.size(), 0);
  std::vector<Lifetime> kept;
  for (std::size_t block = 0; block < lives.size(); ++block) {
    if (blocks.taken_by[block] != block) continue;
    index[block] = kept.size();
    kept.push_back(lives[block]);
  }
  const ArenaPlan arena = plan_arena(kept);
  plan.arena_bytes = arena.size_bytes;
  plan.live_bytes = arena.live_bytes;
  for (const Value* value : blocks.values)
    plan.offsets.emplace_back(value, arena.offsets[index[blocks.place_of(value)]]);
  for (const auto& [value, block] : blocks.spare) plan.spare.emplace_back(value, arena.offsets[index[block]]);
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
