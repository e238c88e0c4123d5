// parallel_for: every item once, whatever the number of threads.
#include "base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace htpipe {
namespace {

TEST(ParallelForTest, VisitsEachItemOnce) {
  for (const std::int64_t count : {0, 1, 2, 3, 17, 10000}) {
    std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
    std::atomic<bool> worker_in_range{true};
    parallel_for(count, [&](std::int64_t item, int worker) {
      ++visits[static_cast<std::size_t>(item)];
      if (worker < 0 || worker >= thread_count()) worker_in_range = false;
    });
    for (const auto& number : visits) EXPECT_EQ(number, 1);
    EXPECT_TRUE(worker_in_range);
  }
}

TEST(ParallelForTest, DoesNothingForANegativeCount) {
  bool called = false;
  parallel_for(-5, [&](std::int64_t, int) { called = true; });
  EXPECT_FALSE(called);
}

TEST(ParallelForTest, AWorkerHandlesOneItemAtATime) {
  std::vector<std::atomic<int>> busy(static_cast<std::size_t>(thread_count()));
  std::atomic<bool> shared{false};
  parallel_for(2000, [&](std::int64_t, int worker) {
    if (busy[static_cast<std::size_t>(worker)].exchange(1) != 0) shared = true;
    busy[static_cast<std::size_t>(worker)] = 0;
  });
  EXPECT_FALSE(shared);
}

TEST(ParallelForTest, AnExceptionEndsTheLoopAndIsPassedOnAfterAllWorkersEnded) {
  constexpr int kCount = 300;
  std::atomic<int> running{0};
  std::atomic<int> done{0};
  try {
    parallel_for(kCount, [&](std::int64_t item, int) {
      if (item == 10) throw std::runtime_error("item ten");
      ++running;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      ++done;
      --running;
    });
    FAIL() << "no exception";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "item ten");
  }
  EXPECT_EQ(running, 0);
  // All but item ten are done when the other workers do not stop.
  EXPECT_LT(done, kCount - 1);
}

TEST(ParallelForTest, LoopsMayBeNested) {
  std::atomic<std::int64_t> sum{0};
  parallel_for(
      20, [&](std::int64_t outer, int) { parallel_for(20, [&](std::int64_t inner, int) { sum += outer * inner; }); });
  EXPECT_EQ(sum, 190 * 190);
}

}  // namespace
}  // namespace htpipe
