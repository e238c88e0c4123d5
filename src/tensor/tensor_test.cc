// Tensors: transposition against index arithmetic by definition, dequantisation against the formula.
#include "tensor/tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "base/check.h"

namespace htpipe {
namespace {

/// Row-major position of `index` in `shape`, by the definition.
std::int64_t position(const Shape& shape, const Shape& index) {
  std::int64_t result = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) result = result * shape[axis] + index[axis];
  return result;
}

/// Calls visit(index) for each index of `shape`, the last axis fastest.
template <typename Visit>
void for_each_index(const Shape& shape, const Visit& visit) {
  const std::int64_t count = element_count(shape);
  for (std::int64_t number = 0; number < count; ++number) {
    Shape index(shape.size());
    std::int64_t rest = number;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      index[axis] = rest % shape[axis];
      rest /= shape[axis];
    }
    visit(index);
  }
}

/// A tensor whose elements all differ.
Tensor numbered(DType dtype, const Shape& shape) {
  Tensor tensor(TensorType{dtype, shape, std::nullopt});
  auto bytes = tensor.mutable_data<std::uint8_t>();
  const std::size_t size = size_of(dtype);
  for (std::size_t i = 0; i < bytes.size() / size; ++i) {
    const std::uint64_t value = i * 0x0101010101010101ULL + 1;
    std::memcpy(&bytes[i * size], &value, size);
  }
  return tensor;
}

void expect_transposed(const Tensor& from, const std::vector<std::int64_t>& order) {
  const Tensor to = transpose(from, order);
  ASSERT_EQ(to.dtype(), from.dtype());
  ASSERT_EQ(to.shape().size(), from.shape().size());
  for (std::size_t axis = 0; axis < order.size(); ++axis) {
    ASSERT_EQ(to.shape()[axis], from.shape()[static_cast<std::size_t>(order[axis])]);
  }
  const std::size_t size = size_of(from.dtype());
  for_each_index(to.shape(), [&](const Shape& index) {
    Shape source(index.size());
    for (std::size_t axis = 0; axis < order.size(); ++axis) source[static_cast<std::size_t>(order[axis])] = index[axis];
    const auto here = static_cast<std::size_t>(position(to.shape(), index)) * size;
    const auto there = static_cast<std::size_t>(position(from.shape(), source)) * size;
    ASSERT_EQ(std::memcmp(to.bytes().data() + here, from.bytes().data() + there, size), 0);
  });
}

TEST(TransposeTest, FollowsTheDefinitionForAllOrders) {
  const std::vector<Shape> shapes = {
      {}, {5}, {3, 4}, {2, 3, 4}, {1, 5, 2}, {2, 3, 1, 4}, {2, 3, 2, 3, 2}, {3, 0, 2}, {33, 65}, {40, 3, 70}};
  for (const Shape& shape : shapes) {
    std::vector<std::int64_t> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    do {
      expect_transposed(numbered(DType::kU16, shape), order);
    } while (std::next_permutation(order.begin(), order.end()));
  }
}

TEST(TransposeTest, MovesElementsOfEachSize) {
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kI8, DType::kBool, DType::kI64}) {
    expect_transposed(numbered(dtype, {2, 3, 4, 5}), {0, 2, 3, 1});
  }
}

TEST(TransposeTest, TheEncodingFollowsItsAxis) {
  const Shape shape = {2, 3, 4};
  for (int axis = 0; axis < 3; ++axis) {
    const auto channels = static_cast<std::size_t>(shape[static_cast<std::size_t>(axis)]);
    Encoding encoding;
    encoding.axis = axis;
    for (std::size_t i = 0; i < channels; ++i) {
      encoding.scales.push_back(0.5F * static_cast<float>(i + 1));
      encoding.zero_points.push_back(static_cast<std::int32_t>(i));
    }
    Tensor from = numbered(DType::kI8, shape);
    from = from.with_type(TensorType{DType::kI8, shape, encoding});
    const Tensor to = transpose(from, {2, 0, 1});
    // The same element has the same real value in both.
    for_each_index(to.shape(), [&](const Shape& index) {
      const Shape source = {index[1], index[2], index[0]};
      EXPECT_EQ(to.real(position(to.shape(), index)), from.real(position(shape, source)));
    });
    EXPECT_EQ(to.shape()[static_cast<std::size_t>(to.type().encoding->axis)], shape[static_cast<std::size_t>(axis)]);
  }
}

TEST(TransposeTest, AWrongRankIsABug) {
  EXPECT_THROW((void)transpose(numbered(DType::kU8, {2, 3}), {0, 1, 2}), BugError);
}

TEST(TensorTest, DequantisesByTheFormula) {
  const TensorType type{DType::kU8, {256}, Encoding::per_tensor(0.02F, 128, 8)};
  Tensor tensor(type);
  auto values = tensor.mutable_data<std::uint8_t>();
  std::iota(values.begin(), values.end(), std::uint8_t{0});
  const std::vector<float> floats = to_floats(tensor);
  for (int i = 0; i < 256; ++i) {
    const double expected = (i - 128) * static_cast<double>(0.02F);
    EXPECT_EQ(tensor.real(i), expected);
    EXPECT_EQ(floats[static_cast<std::size_t>(i)], static_cast<float>(expected));
  }
}

TEST(TensorTest, DequantisesEachChannelOfEachAxis) {
  const Shape shape = {2, 3, 2};
  for (int axis = 0; axis < 3; ++axis) {
    Encoding encoding{{0.5F, 2.0F, 8.0F}, {1, -2, 3}, axis, 8};
    encoding.scales.resize(static_cast<std::size_t>(shape[static_cast<std::size_t>(axis)]));
    encoding.zero_points.resize(encoding.scales.size());
    const std::vector<std::int32_t> stored = {-6, 5, -4, 3, -2, 1, 0, 7, 100, -100, 50, 2000000000};
    const Tensor tensor = Tensor::from<std::int32_t>(TensorType{DType::kI32, shape, encoding}, stored);
    for_each_index(shape, [&](const Shape& index) {
      const auto channel = static_cast<std::size_t>(index[static_cast<std::size_t>(axis)]);
      const std::int64_t at = position(shape, index);
      const double whole = static_cast<double>(stored[static_cast<std::size_t>(at)]) - encoding.zero_points[channel];
      EXPECT_EQ(tensor.real(at), whole * static_cast<double>(encoding.scales[channel]));
    });
  }
}

template <typename T>
void expect_widened(DType dtype, const std::vector<T>& values) {
  const Tensor tensor = Tensor::from<T>(TensorType{dtype, {static_cast<std::int64_t>(values.size())}, {}}, values);
  const std::vector<float> floats = to_floats(tensor);
  ASSERT_EQ(floats.size(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(tensor.real(static_cast<std::int64_t>(i)), static_cast<double>(values[i]));
    EXPECT_EQ(floats[i], static_cast<float>(values[i]));
  }
}

TEST(TensorTest, WidensEachTypeWithoutEncoding) {
  expect_widened<double>(DType::kF64, {0.1, -1e300});
  expect_widened<float>(DType::kF32, {0.1F, -1e30F});
  expect_widened<std::int64_t>(DType::kI64, {-5, 1LL << 40});
  expect_widened<std::int32_t>(DType::kI32, {-2147483647, 7});
  expect_widened<std::int16_t>(DType::kI16, {-32768, 32767});
  expect_widened<std::int8_t>(DType::kI8, {-128, 127});
  expect_widened<std::uint32_t>(DType::kU32, {4294967295U, 0});
  expect_widened<std::uint16_t>(DType::kU16, {65535, 1});
  expect_widened<std::uint8_t>(DType::kU8, {255, 1});
  expect_widened<std::uint8_t>(DType::kBool, {0, 1});
  const std::vector<std::uint16_t> ones = {0x3C00, 0xBC00};
  EXPECT_EQ(to_floats(Tensor::from<std::uint16_t>(TensorType{DType::kF16, {2}, {}}, ones)),
            (std::vector<float>{1.0F, -1.0F}));
  const std::vector<std::uint16_t> brains = {0x3F80, 0xC000};
  EXPECT_EQ(to_floats(Tensor::from<std::uint16_t>(TensorType{DType::kBF16, {2}, {}}, brains)),
            (std::vector<float>{1.0F, -2.0F}));
}

TEST(TensorTest, ANewTensorIsZeroAndCopiesShareBytes) {
  const Tensor tensor(TensorType{DType::kF32, {3, 5}, {}});
  for (const float value : tensor.data<float>()) EXPECT_EQ(value, 0.0F);
  const std::vector<Tensor> copies(2, tensor);
  for (const Tensor& copy : copies) EXPECT_EQ(copy.bytes().data(), tensor.bytes().data());
  EXPECT_FALSE(tensor.empty());
  EXPECT_TRUE(Tensor().empty());
}

TEST(TensorTest, ABorrowedTensorReadsItsOwnersBytesAndIsReadOnly) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3});
  const std::weak_ptr<std::vector<float>> watch = owner;
  {
    const auto* bytes = reinterpret_cast<const std::byte*>(owner->data());
    Tensor tensor(TensorType{DType::kF32, {3}, {}}, owner, bytes);
    owner.reset();
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(to_floats(tensor), (std::vector<float>{1, 2, 3}));
    EXPECT_THROW((void)tensor.mutable_data<float>(), BugError);
  }
  EXPECT_TRUE(watch.expired());
}

TEST(TensorTest, AnotherTypeMustHaveTheSameSize) {
  const Tensor tensor = numbered(DType::kU8, {4});
  EXPECT_EQ(tensor.with_type(TensorType{DType::kI8, {2, 2}, {}}).shape(), (Shape{2, 2}));
  EXPECT_THROW((void)tensor.with_type(TensorType{DType::kI16, {4}, {}}), BugError);
}

TEST(TensorTypeTest, ReadsAsInTheGraphText) {
  EXPECT_EQ(to_string(Shape{1, 3, 32, 32}), "[1,3,32,32]");
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ(to_string(TensorType{DType::kF32, {2}, {}}), "f32[2]");
  EXPECT_EQ(to_string(TensorType{DType::kU8, {1, 8}, Encoding::per_tensor(0.02F, 128, 8)}),
            "u8<scale 0.02, zero 128>[1,8]");
  EXPECT_EQ(to_string(TensorType{DType::kI8, {2}, Encoding::per_tensor(0.5F, 0, 4)}),
            "i8<scale 0.5, zero 0, bits 4>[2]");
  EXPECT_EQ(to_string(TensorType{DType::kI8, {2}, Encoding{{0.5F, 0.25F}, {0, 0}, 0, 8}}),
            "i8<axis 0, scales [0.5,0.25], zeros [0,0]>[2]");
}

}  // namespace
}  // namespace htpipe
