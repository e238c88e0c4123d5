// The memory plan: no two values that live at the same time share a byte, orders keep producers in front, and little is
// lost against the largest live set.
#include "exec/memory_plan.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "exec/program.h"
#include "exec/schedule.h"
#include "ir/text.h"
#include "ops/registry.h"

namespace htpipe {
namespace {

Graph parse(const std::string& text) {
  register_all_ops();
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().summary();
  return std::move(*graph);
}

/// A random graph of adds, relus and reshapes with values of very different sizes: [1, n], reduced and repeated.
Graph random_graph(std::uint32_t seed, int nodes) {
  std::mt19937 random(seed);
  const auto below = [&random](std::size_t count) { return random() % count; };
  std::string text = "graph @random(%v0: f32[1,512], %v1: f32[1,512]) -> (";
  std::string body;
  std::vector<int> sizes = {512, 512};
  std::vector<int> uses = {0, 0};
  for (int i = 2; i < nodes + 2; ++i) {
    // Most operands are recent, some are from far back.
    const auto pick = [&] {
      const std::size_t window = below(4) == 0 ? sizes.size() : std::min<std::size_t>(sizes.size(), 4);
      return sizes.size() - 1 - below(window);
    };
    const std::size_t a = pick();
    ++uses[a];
    std::size_t b = pick();
    switch (below(5)) {
      case 0:
        body += fmt::format("  %v{} = ElementWiseNeuron(%v{}) {{operation=\"relu\"}}\n", i, a);
        sizes.push_back(sizes[a]);
        break;
      case 1:
        body += fmt::format("  %r{0} = Reshape(%v{1}) {{shape=[{2},1]}}\n  %v{0} = Reshape(%r{0}) {{shape=[1,{2}]}}\n",
                            i, a, sizes[a]);
        sizes.push_back(sizes[a]);
        break;
      case 2:
        if (sizes[a] < 40000) {
          body += fmt::format("  %v{} = Tile(%v{}) {{multiples=[1,3]}}\n", i, a);
          sizes.push_back(sizes[a] * 3);
          break;
        }
        [[fallthrough]];
      case 3:
        body += fmt::format("  %v{} = ReduceMean(%v{}) {{axes=[1], keep_dims=true}}\n", i, a);
        sizes.push_back(1);
        break;
      default:
        if (sizes[a] != sizes[b] && sizes[a] != 1 && sizes[b] != 1) b = a;
        body += fmt::format("  %v{} = ElementWiseBinary(%v{}, %v{}) {{operation=\"add\"}}\n", i, a, b);
        sizes.push_back(std::max(sizes[a], sizes[b]));
        ++uses[b];
    }
    uses.push_back(0);
  }
  std::string outputs;
  for (std::size_t i = 2; i < uses.size(); ++i) {
    if (uses[i] == 0 || below(20) == 0) outputs += fmt::format("{}%v{}", outputs.empty() ? "" : ", ", i);
  }
  return parse(text + outputs + ") {\n" + body + "}");
}

void expect_sound(const Graph& graph, const MemoryPlan& plan) {
  ASSERT_EQ(plan.order.size(), graph.nodes().size());
  // What lies where, step by step: a value's bytes belong to it from its producer to its last user.
  std::map<const Value*, int> users;
  for (const Node* node : plan.order) {
    for (const Value* operand : std::set<const Value*>(node->operands.begin(), node->operands.end())) {
      if (operand != nullptr) ++users[operand];
    }
  }
  std::set<const Value*> alive;
  for (const Value* input : graph.inputs()) {
    if (users.count(input) != 0 || graph.is_output(input)) alive.insert(input);
  }
  const auto clash = [&](const Value* a, const Value* b) {
    const std::size_t from = plan.offset_of(a);
    const std::size_t other = plan.offset_of(b);
    return from < other + b->type.size_bytes() && other < from + a->type.size_bytes();
  };
  for (const Node* node : plan.order) {
    for (const Value* operand : node->operands) {
      if (operand == nullptr || operand->is_constant()) continue;
      ASSERT_EQ(alive.count(operand), 1U) << operand->name;
    }
    for (const Value* result : node->results) {
      ASSERT_LE(plan.offset_of(result) + result->type.size_bytes(), plan.arena_bytes);
      for (const Value* other : alive) {
        const bool same =
            plan.offset_of(other) == plan.offset_of(result) && other->type.size_bytes() == result->type.size_bytes();
        // A shape of a value lies where the value does, and what is read for the last time may be written over.
        const bool last = std::count(node->operands.begin(), node->operands.end(), other) > 0 && users[other] == 1 &&
                          !graph.is_output(other);
        ASSERT_TRUE((same && (node->is("Reshape") || last)) || !clash(result, other))
            << result->name << " over " << other->name;
      }
      alive.insert(result);
    }
    for (const Value* operand : std::set<const Value*>(node->operands.begin(), node->operands.end())) {
      if (operand != nullptr && --users[operand] == 0 && !graph.is_output(operand)) alive.erase(operand);
    }
    for (const Value* result : node->results) {
      if (users[result] == 0 && !graph.is_output(result)) alive.erase(result);
    }
  }
}

TEST(MemoryPlan, RandomGraphsStayCloseToTheBound) {
  double worst = 1;
  for (std::uint32_t seed = 0; seed < 120; ++seed) {
    const Graph graph = random_graph(seed, 10 + static_cast<int>(seed % 60));
    const MemoryPlan plan = plan_memory(graph);
    expect_sound(graph, plan);
    if (HasFatalFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
    const double ratio = static_cast<double>(plan.arena_bytes) / static_cast<double>(plan.live_bytes);
    worst = std::max(worst, ratio);
    EXPECT_LE(ratio, 1.2) << "seed " << seed;
  }
  RecordProperty("worst_ratio", std::to_string(worst));
}

TEST(MemoryPlan, ResultsDoNotDependOnOrderAndSharing) {
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    const Graph graph = random_graph(seed, 40);
    std::vector<Tensor> inputs;
    for (const Value* input : graph.inputs()) {
      Tensor tensor(input->type);
      std::mt19937 random(seed);
      for (float& x : tensor.mutable_data<float>()) x = static_cast<float>(random() % 2001) / 1000.0F - 1;
      inputs.push_back(std::move(tensor));
    }
    // Node after node, each value in memory of its own.
    std::map<const Value*, Tensor> values;
    for (std::size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i]] = inputs[i];
    for (const auto& node : graph.nodes()) {
      const auto kernel = make_kernel(*node, 0);
      ASSERT_TRUE(kernel);
      const CallMemory memory(*kernel, 1);
      std::vector<const void*> operands;
      for (const Value* operand : node->operands) operands.push_back(values.at(operand).bytes().data());
      Tensor result(node->result()->type);
      std::vector<void*> results = {result.mutable_data<std::byte>().data()};
      kernel->run({operands, results, memory.scratch(), memory.lanes()});
      values[node->result()] = result;
    }
    const auto outputs = run_once(graph, inputs);
    ASSERT_TRUE(outputs);
    for (std::size_t i = 0; i < outputs->size(); ++i) {
      EXPECT_TRUE(std::ranges::equal((*outputs)[i].bytes(), values.at(graph.outputs()[i]).bytes())) << seed;
    }
  }
}

TEST(MemoryPlan, BranchesRunOneBehindTheOther) {
  // In the order given all four wide values live at once.
  const Graph graph = parse(R"(graph @g(%x: f32[1,4]) -> (%y) {
    %a = Tile(%x) {multiples=[1,1000]}
    %b = Tile(%x) {multiples=[1,1000]}
    %c = Tile(%x) {multiples=[1,1000]}
    %d = Tile(%x) {multiples=[1,1000]}
    %a1 = ReduceMean(%a) {axes=[1], keep_dims=true}
    %b1 = ReduceMean(%b) {axes=[1], keep_dims=true}
    %c1 = ReduceMean(%c) {axes=[1], keep_dims=true}
    %d1 = ReduceMean(%d) {axes=[1], keep_dims=true}
    %y = Concat(%a1, %b1, %c1, %d1) {axis=1}
  })");
  const MemoryPlan plan = plan_memory(graph);
  EXPECT_LT(plan.live_bytes, 20000U);
  EXPECT_LE(plan.arena_bytes, plan.live_bytes * 6 / 5);
  const MemoryPlan again = plan_memory(graph);
  EXPECT_EQ(again.order, plan.order);
  EXPECT_EQ(again.offsets, plan.offsets);
}

TEST(MemoryPlan, ElementwiseNodesWriteOverWhatNobodyReadsAgain) {
  const Graph graph = parse(R"(graph @g(%x: f32[1,4000]) -> (%y) {
    %s = ElementWiseNeuron(%x) {operation="sigmoid"}
    %m = ElementWiseBinary(%x, %s) {operation="multiply"}
    %y = ElementWiseNeuron(%m) {operation="relu"}
  })");
  const MemoryPlan plan = plan_memory(graph);
  EXPECT_LT(plan.arena_bytes, 2 * 4000U * 4 + 1000);
}

TEST(MemoryPlan, ReshapesTakeNoMemory) {
  const Graph graph = parse(R"(graph @g(%x: f32[1,4000]) -> (%y) {
    %a = Reshape(%x) {shape=[4,1000]}
    %b = Reshape(%a) {shape=[40,100]}
    %y = ReduceMean(%b) {axes=[0], keep_dims=false}
  })");
  const MemoryPlan plan = plan_memory(graph);
  EXPECT_LT(plan.arena_bytes, 4000U * 4 + 1000);
}

TEST(Schedule, FindsNoWorseOrderThanTheOneGiven) {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    ScheduleProblem problem;
    const std::size_t count = 2 + random() % 40;
    for (std::size_t i = 0; i < count; ++i) {
      ScheduleProblem::Step step;
      for (std::size_t j = 0; j < i; ++j) {
        if (random() % 5 == 0) step.reads.push_back(j);
      }
      step.after = step.reads;
      step.writes = {i};
      problem.steps.push_back(step);
      problem.bytes.push_back(64 * (1 + random() % 100));
      problem.there_from_start.push_back(false);
      problem.there_to_end.push_back(random() % 10 == 0);
    }
    std::vector<std::size_t> given(count);
    for (std::size_t i = 0; i < count; ++i) given[i] = i;
    const auto best = best_order(problem);
    EXPECT_LE(peak_of(problem, best), peak_of(problem, given));
    std::vector<std::size_t> at(count);
    for (std::size_t i = 0; i < count; ++i) at[best[i]] = i;
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::size_t before : problem.steps[i].after) EXPECT_LT(at[before], at[i]);
    }
  }
}

}  // namespace
}  // namespace htpipe
