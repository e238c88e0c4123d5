// Weights are packed once for as long as somebody holds the packing.
#include "ops/packed.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace htpipe::ops {
namespace {

Tensor floats(const Shape& shape) { return Tensor({DType::kF32, shape, std::nullopt}); }

TEST(SharedPacked, IsMadeOnceWhileItIsHeld) {
  const Tensor weight = floats({4, 4});
  int made = 0;
  const auto make = [&made] { return std::vector<float>{static_cast<float>(++made)}; };
  auto first = shared_packed<std::vector<float>>(weight, "panels", make);
  const Tensor copy = weight;  // shares the bytes
  EXPECT_EQ(shared_packed<std::vector<float>>(copy, "panels", make), first);
  EXPECT_EQ(made, 1);
  first.reset();
  EXPECT_EQ(shared_packed<std::vector<float>>(weight, "panels", make)->front(), 2);
  EXPECT_EQ(made, 2);
}

TEST(SharedPacked, OtherKindsTypesAndTensorsAreOthers) {
  const Tensor weight = floats({4, 4});
  const Tensor turned = weight.with_type({DType::kF32, {2, 8}, std::nullopt});
  const Tensor other = floats({4, 4});
  int made = 0;
  const auto ints = [&made] { return std::vector<int>{++made}; };
  const auto doubles = [&made] { return std::vector<double>{static_cast<double>(++made)}; };
  const auto a = shared_packed<std::vector<int>>(weight, "a", ints);
  const auto b = shared_packed<std::vector<int>>(weight, "b", ints);
  const auto c = shared_packed<std::vector<double>>(weight, "a", doubles);
  const auto d = shared_packed<std::vector<int>>(turned, "a", ints);
  const auto e = shared_packed<std::vector<int>>(other, "a", ints);
  EXPECT_EQ(made, 5);
  EXPECT_EQ(a->front() + b->front() + static_cast<int>(c->front()) + d->front() + e->front(), 15);
}

TEST(SharedPacked, HoldsItsWeightSoThatNoOtherGetsItsAddress) {
  std::vector<std::shared_ptr<const int>> held;
  for (int i = 0; i < 1000; ++i) {
    // Without that, one of the next tensors lies where this one was, and would get its packing.
    held.push_back(shared_packed<int>(floats({16}), "number", [i] { return i; }));
    ASSERT_EQ(*held.back(), i);
  }
}

TEST(SharedPacked, ThreadsShareToo) {
  const Tensor weight = floats({64});
  std::atomic<int> made = 0;
  std::vector<std::shared_ptr<const int>> got(8);
  {
    std::vector<std::jthread> threads;
    for (auto& slot : got) {
      threads.emplace_back([&] { slot = shared_packed<int>(weight, "number", [&] { return ++made; }); });
    }
  }
  for (const auto& packing : got) EXPECT_EQ(packing, got.front());
}

}  // namespace
}  // namespace htpipe::ops
