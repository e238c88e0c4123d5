// ElementWiseBinary on stored values, as it runs, against its rule applied to every pair.
#include "ops/fixed_pairs.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "ops/binary_rules.h"
#include "ops/broadcast.h"
#include "ops/evaluate.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Tensor stored(std::mt19937& random, TensorType type) {
  Tensor tensor(std::move(type));
  for (std::byte& byte : tensor.mutable_data<std::byte>()) byte = static_cast<std::byte>(random());
  return tensor;
}

/// One node with random encodings; `spread` is how far apart the scales may lie, in powers of two.
void check(const std::string& operation, DType dtype, const Shape& a, const Shape& b, double spread,
           std::mt19937& random) {
  SCOPED_TRACE(operation + " " + std::string(name_of(dtype)) + " " + to_string(a) + " " + to_string(b));
  const bool wide = size_of(dtype) == 2;
  const bool is_signed = dtype == DType::kI8 || dtype == DType::kI16;
  const int half = wide ? 32768 : 128;
  const auto encoding = [&] {
    const double power = spread * (static_cast<double>(random()) / 4294967296.0 - 0.5) - (wide ? 14 : 6);
    const int zero = static_cast<int>(random() % static_cast<unsigned>(2 * half)) - (is_signed ? half : 0);
    return Encoding::per_tensor(static_cast<float>(std::exp2(power)), zero, wide ? 16 : 8);
  };
  const Tensor x = stored(random, {dtype, a, encoding()});
  const Tensor y = stored(random, {dtype, b, encoding()});
  Graph graph("one");
  Attributes attributes;
  attributes.set("operation", operation);
  const auto made = graph.add_node("ElementWiseBinary", "z", attributes,
                                   {graph.add_input("x", x.type()), graph.add_input("y", y.type())});
  ASSERT_TRUE(made) << made.error().message;
  Node& node = **made;
  node.results[0]->type.encoding = encoding();
  const TensorType& type = node.results[0]->type;
  const NodeTypes types(node);
  const auto rule = binary_rule(types.view(), type);
  const auto kernel = make_kernel(node, 73);
  ASSERT_EQ(rule.has_value(), kernel.has_value());
  if (!rule) return;
  std::vector<std::int64_t> want(static_cast<std::size_t>(type.count()));
  const BroadcastPlan plan = plan_broadcast({&a, &b}, type.shape);
  for_each_run(plan, [&](std::int64_t to, const BroadcastPlan::Offsets& from) {
    for (std::int64_t i = 0; i < plan.run; ++i) {
      const std::int64_t p = kernels::load(x.bytes().data(), dtype, from[0] + (plan.repeats[0] ? 0 : i));
      const std::int64_t q = kernels::load(y.bytes().data(), dtype, from[1] + (plan.repeats[1] ? 0 : i));
      want[static_cast<std::size_t>(to + i)] = (*rule)(p, q);
    }
  });
  for (const int lanes : {1, 2}) {
    Tensor out(type);
    const std::array<const void*, 2> operands = {x.bytes().data(), y.bytes().data()};
    std::array<void*, 1> results = {out.mutable_data<std::byte>().data()};
    const CallMemory memory(*kernel, lanes);
    kernel->run({operands, results, memory.scratch(), memory.lanes()});
    for (std::size_t i = 0; i < want.size(); ++i) {
      ASSERT_EQ(kernels::load(out.bytes().data(), dtype, static_cast<std::int64_t>(i)), want[i])
          << "element " << i << ", " << lanes << " lanes, " << to_string(x.type()) << " " << to_string(y.type()) << " "
          << to_string(type);
    }
  }
}

TEST(FixedPairs, LoopsAreTheRule) {
  register_all_ops();
  std::mt19937 random(21);
  const std::vector<std::pair<Shape, Shape>> shapes = {{{1, 9, 9, 24}, {1, 9, 9, 24}},
                                                       {{1, 5, 5, 17}, {1, 1, 1, 17}},
                                                       {{1, 1, 1, 40}, {1, 6, 7, 40}},
                                                       {{2, 4, 5, 8}, {2, 4, 1, 1}},
                                                       {{3, 1}, {1, 300}},
                                                       {{2, 20000}, {2, 20000}}};
  for (const auto& [a, b] : shapes) {
    for (const DType dtype : {DType::kU8, DType::kI8, DType::kU16, DType::kI16}) {
      for (const char* operation : {"add", "subtract", "multiply", "maximum", "minimum"}) {
        for (const double spread : {2.0, 4.0, 6.0}) check(operation, dtype, a, b, spread, random);
      }
    }
  }
}

}  // namespace
}  // namespace htpipe::ops
