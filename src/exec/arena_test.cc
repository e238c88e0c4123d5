// Placement of values: no two that live at the same time overlap, and little memory is lost.
#include "exec/arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "exec/program.h"
#include "import/pt2/import.h"
#include "ops/registry.h"
#include "passes/driver.h"

namespace htpipe {
namespace {

void expect_valid(const std::vector<Lifetime>& values, const ArenaPlan& plan) {
  ASSERT_EQ(plan.offsets.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % 64, 0U);
    EXPECT_LE(plan.offsets[i] + values[i].size_bytes, plan.size_bytes);
    for (std::size_t j = 0; j < i; ++j) {
      const bool together = values[i].first <= values[j].last && values[j].first <= values[i].last;
      const bool apart = plan.offsets[i] + values[i].size_bytes <= plan.offsets[j] ||
                         plan.offsets[j] + values[j].size_bytes <= plan.offsets[i];
      ASSERT_TRUE(!together || apart) << i << " and " << j;
    }
  }
  // No plan can be smaller than what is alive at one step.
  std::size_t last = 0;
  for (const Lifetime& value : values) last = std::max(last, value.last);
  std::size_t most = 0;
  for (std::size_t step = 0; step <= last; ++step) {
    std::size_t sum = 0;
    for (const Lifetime& value : values) sum += value.first <= step && step <= value.last ? value.size_bytes : 0;
    most = std::max(most, sum);
  }
  EXPECT_GE(plan.live_bytes, most);
  EXPECT_LE(plan.live_bytes, most + 64 * values.size());  // alignment only
  EXPECT_GE(plan.size_bytes, plan.live_bytes);
}

TEST(Arena, RandomLifetimesNeverOverlap) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> values(1 + random() % 40);
    for (Lifetime& value : values) {
      value.size_bytes = random() % 5 == 0 ? random() % 3 : random() % 5000;
      value.first = random() % 20;
      value.last = value.first + random() % 8;
    }
    expect_valid(values, plan_arena(values));
    if (HasFatalFailure()) return;
  }
}

TEST(Arena, AChainNeedsTwoBuffers) {
  std::vector<Lifetime> values;
  for (std::size_t i = 0; i < 50; ++i) values.push_back({1024, i, i + 1});
  const ArenaPlan plan = plan_arena(values);
  expect_valid(values, plan);
  EXPECT_EQ(plan.size_bytes, 2048U);
}

TEST(Arena, NothingNeedsNothing) {
  const ArenaPlan plan = plan_arena({});
  EXPECT_EQ(plan.size_bytes, 0U);
  EXPECT_EQ(plan.live_bytes, 0U);
}

TEST(Arena, ExampleModelStaysCloseToTheBound) {
  register_all_ops();
  auto graph = import_pt2(HTPIPE_SOURCE_DIR "/examples/fashion_resnet/fashion_resnet.pt2");
  ASSERT_TRUE(graph) << graph.error().summary();
  for (const bool optimised : {false, true}) {
    if (optimised) {
      ASSERT_TRUE(run_passes(*graph));
    }
    const auto program = Program::make(*graph, 73);
    ASSERT_TRUE(program) << program.error().summary();
    EXPECT_GT(program->live_bytes(), 28U * 28 * 16 * 4);
    EXPECT_LE(static_cast<double>(program->arena_bytes()), 1.2 * static_cast<double>(program->live_bytes()));
  }
}

}  // namespace
}  // namespace htpipe
