// Kernels on plain values, called without a graph: for the tests of elementwise operators.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ops/evaluate.h"
#include "ops/registry.h"

namespace htpipe::plain {

inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();
using Floats = std::vector<float>;
using Integers = std::vector<std::int64_t>;
using Bytes8 = std::vector<std::uint8_t>;

inline Tensor floats(const Floats& values, Shape shape) {
  return Tensor::from<float>({DType::kF32, std::move(shape), std::nullopt}, values);
}
inline Tensor floats(const Floats& values) { return floats(values, {static_cast<std::int64_t>(values.size())}); }
inline Tensor integers(const Integers& values) {
  return Tensor::from<std::int64_t>({DType::kI64, {static_cast<std::int64_t>(values.size())}, std::nullopt}, values);
}
inline Tensor logic(const Bytes8& values, Shape shape) {
  return Tensor::from<std::uint8_t>({DType::kBool, std::move(shape), std::nullopt}, values);
}
inline Tensor logic(const Bytes8& values) { return logic(values, {static_cast<std::int64_t>(values.size())}); }

/// The node on its own, types inferred.
inline Result<Tensor> call(const char* name, const Attributes& given, const std::vector<Tensor>& operands,
                           bool constant = false) {
  register_all_ops();
  const OpDef& op = *find_op(name);
  HTPIPE_TRY(const Attributes attributes, complete(op, given));
  std::vector<const TensorType*> types;
  std::vector<const Tensor*> constants;
  std::vector<const void*> data;
  for (const Tensor& operand : operands) {
    types.push_back(&operand.type());
    constants.push_back(constant ? &operand : nullptr);
    data.push_back(operand.bytes().data());
  }
  const NodeView view{attributes, types, constants};
  HTPIPE_TRY(const std::vector<TensorType> results, op.infer(view));
  const TensorType* result_types[] = {&results.front()};
  HTPIPE_TRY(const Kernel kernel, op.float_kernel({view, result_types, 0}));
  Tensor result(results.front());
  void* out[] = {result.mutable_data<std::byte>().data()};
  const CallMemory memory(kernel, 1);
  kernel.run({data, out, memory.scratch(), memory.lanes()});
  return result;
}

inline Result<Tensor> binary(const char* operation, const Tensor& a, const Tensor& b) {
  return call("ElementWiseBinary", {{"operation", std::string(operation)}}, {a, b});
}
inline Result<Tensor> unary(const char* operation, const Tensor& a) {
  return call("ElementWiseUnary", {{"operation", std::string(operation)}}, {a});
}

template <typename T>
std::vector<T> values(const Result<Tensor>& tensor) {
  EXPECT_TRUE(tensor) << tensor.error().summary();
  if (!tensor) return {};
  const auto data = tensor->template data<T>();
  return {data.begin(), data.end()};
}

/// Equal to 4 units in the last place; NaN equals NaN.
inline void expect_close(const char* what, const Result<Tensor>& got, const Floats& want) {
  const Floats numbers = values<float>(got);
  ASSERT_EQ(numbers.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) {
      EXPECT_TRUE(std::isnan(numbers[i])) << what << " [" << i << "]: " << numbers[i];
    } else {
      EXPECT_FLOAT_EQ(numbers[i], want[i]) << what << " [" << i << "]";
    }
  }
}

}  // namespace htpipe::plain
