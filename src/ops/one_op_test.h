// One operator run on its float kernel, for the unit tests of this room.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/evaluate.h"
#include "ops/registry.h"

namespace htpipe::ops::testing {

using Floats = std::vector<float>;
using IntList = std::vector<std::int64_t>;

/// An operand; one without a shape is absent.
struct Operand {
  Tensor tensor;
  bool constant = false;
};
inline Operand floats(const Shape& shape, const Floats& values) {
  return {Tensor::from<float>({DType::kF32, shape, std::nullopt}, values), false};
}
inline Operand integers(const Shape& shape, const IntList& values) {
  return {Tensor::from<std::int64_t>({DType::kI64, shape, std::nullopt}, values), false};
}
inline Operand constant(Operand operand) { return {std::move(operand.tensor), true}; }
inline Operand absent() { return {}; }

/// Numbers between -2 and 2 without a pattern that a wrong axis would keep.
inline Floats noise(const Shape& shape, std::uint32_t seed) {
  Floats values(static_cast<std::size_t>(element_count(shape)));
  std::uint32_t state = seed * 2654435761U + 12345U;
  for (float& value : values) {
    state = state * 1664525U + 1013904223U;
    value = static_cast<float>(state >> 8) / 4194304.0F - 2.0F;
  }
  return values;
}
inline Operand random(const Shape& shape, std::uint32_t seed) { return floats(shape, noise(shape, seed)); }

/// What became of a node: its results, or the word of the error.
struct Ran {
  std::string error;
  std::vector<Tensor> results;

  [[nodiscard]] Floats values(std::size_t result = 0) const {
    return result < results.size() ? to_floats(results[result]) : Floats();
  }
  [[nodiscard]] Shape shape(std::size_t result = 0) const {
    return result < results.size() ? results[result].shape() : Shape();
  }
};

inline Ran run(const char* op, const Attributes& attributes, const std::vector<Operand>& operands) {
  register_all_ops();
  Graph graph("one");
  std::vector<Value*> values;
  std::vector<const void*> pointers;
  for (const Operand& operand : operands) {
    const bool given = !operand.tensor.empty();
    pointers.push_back(given ? operand.tensor.bytes().data() : nullptr);
    if (!given) {
      values.push_back(nullptr);
    } else if (operand.constant) {
      values.push_back(graph.add_constant(graph.unique_name("c"), operand.tensor));
    } else {
      values.push_back(graph.add_input(graph.unique_name("x"), operand.tensor.type()));
    }
  }
  const auto node = graph.add_node(op, "y", attributes, values);
  if (!node) return {std::string(word(node.error().code)), {}};
  const NodeTypes types(**node);
  pointers.resize((*node)->operands.size(), nullptr);
  const auto kernel = (*node)->op->float_kernel({types.view(), types.results(), 0});
  if (!kernel) return {std::string(word(kernel.error().code)), {}};
  Ran ran;
  std::vector<void*> targets;
  for (const Value* result : (*node)->results) {
    Tensor tensor(result->type);
    targets.push_back(tensor.mutable_data<std::byte>().data());
    ran.results.push_back(std::move(tensor));
  }
  const CallMemory memory(*kernel, 1);
  kernel->run({pointers, targets, memory.scratch(), memory.lanes()});
  return ran;
}

/// Every number within `tolerance` of the wanted one, relative to it or, for small ones, to the largest.
inline void expect_near(const Floats& got, const Floats& want, double tolerance = 1e-6) {
  ASSERT_EQ(got.size(), want.size());
  double largest = 0;
  for (const float value : want) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double size = std::max(std::abs(static_cast<double>(want[i])), largest / 8);
    EXPECT_NEAR(static_cast<double>(got[i]), static_cast<double>(want[i]), tolerance * size) << "element " << i;
  }
}

/// `values` of `shape` with the axes permuted.
inline Operand permuted(const Operand& operand, const IntList& order) {
  return {transpose(operand.tensor, order), operand.constant};
}
/// The permutation from [n, c, ...] to [n, ..., c].
inline IntList to_last(std::size_t rank) {
  IntList order(rank);
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  return order;
}

}  // namespace htpipe::ops::testing
