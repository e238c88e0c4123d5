// ElementWiseBinary on plain values, and broadcasting. Numbers are PyTorch 2.13's: torch.NAME of the same
// operands.
#include <limits>
#include <string>
#include <vector>

#include "ops/broadcast.h"
#include "ops/plain_call_test.h"

namespace htpipe {
namespace {

using namespace plain;

TEST(ElementWiseBinary, RealNumbersAsInPyTorch) {
  const Tensor a = floats({1.5F, -7.0F, kNan, kInf, -0.5F, 6.0F});
  const Tensor b = floats({-0.5F, 2.0F, 1.0F, 3.0F, kNan, -4.0F});
  const std::vector<std::pair<const char*, Floats>> cases = {
      {"maximum", {1.5F, 2.0F, kNan, kInf, kNan, 6.0F}},
      {"minimum", {-0.5F, -7.0F, kNan, 3.0F, kNan, -4.0F}},
      {"fmod", {0.0F, -1.0F, kNan, kNan, kNan, 2.0F}},
      {"mod", {0.0F, 1.0F, kNan, kNan, kNan, -2.0F}},
      {"floor_div", {-3.0F, -4.0F, kNan, kNan, kNan, -2.0F}},
      {"power", {0.8164966106414795F, 49.0F, kNan, kInf, kNan, 0.0007716049440205097F}},
      {"atan2", {1.8925468921661377F, -1.292496681213379F, kNan, 1.5707963705062866F, kNan, 2.158798933029175F}},
      {"divide", {-3.0F, -3.5F, kNan, kInf, kNan, -1.5F}},
      {"squared_difference", {4.0F, 81.0F, kNan, kInf, kNan, 100.0F}},
  };
  for (const auto& [operation, want] : cases) expect_close(operation, binary(operation, a, b), want);
}

TEST(ElementWiseBinary, ComparisonsGiveBool) {
  const Tensor a = floats({1.5F, -7.0F, kNan, kInf, -0.5F, 6.0F});
  const Tensor b = floats({-0.5F, 2.0F, 1.0F, 3.0F, kNan, 6.0F});
  const auto less = binary("less", a, b);
  ASSERT_TRUE(less);
  EXPECT_EQ(less->dtype(), DType::kBool);
  EXPECT_EQ(values<std::uint8_t>(less), (Bytes8{0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(values<std::uint8_t>(binary("less_equal", a, b)), (Bytes8{0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(values<std::uint8_t>(binary("greater", a, b)), (Bytes8{1, 0, 0, 1, 0, 0}));
  EXPECT_EQ(values<std::uint8_t>(binary("greater_equal", a, b)), (Bytes8{1, 0, 0, 1, 0, 1}));
  EXPECT_EQ(values<std::uint8_t>(binary("equal", a, b)), (Bytes8{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(values<std::uint8_t>(binary("not_equal", a, b)), (Bytes8{1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(values<std::uint8_t>(binary("less", integers({1, 2, 3}), integers({2}))), (Bytes8{1, 0, 0}));
}

TEST(ElementWiseBinary, IntegersAsInPyTorch) {
  const Tensor a = integers({7, -7, 7, -7, 5, -9});
  const Tensor b = integers({2, 2, -2, -2, 3, 4});
  const std::vector<std::pair<const char*, Integers>> cases = {
      {"divide", {3, -3, -3, 3, 1, -2}},
      {"mod", {1, 1, -1, -1, 2, 3}},
      {"fmod", {1, -1, 1, -1, 2, -1}},
      {"floor_div", {3, -4, -4, 3, 1, -3}},
      {"maximum", {7, 2, 7, -2, 5, 4}},
      {"bit_and", {2, 0, 6, -8, 1, 4}},
      {"bit_or", {7, -5, -1, -1, 7, -9}},
      {"bit_xor", {5, -5, -7, 7, 6, -13}},
      {"power", {49, 49, 0, 0, 125, 6561}},
      {"shift_left", {28, -28, 0, 0, 40, -144}},
      {"shift_right", {1, -2, 0, -1, 0, -1}},
      {"add", {9, -5, 5, -9, 8, -5}},
      {"squared_difference", {25, 81, 81, 25, 4, 169}},
  };
  for (const auto& [operation, want] : cases) {
    EXPECT_EQ(values<std::int64_t>(binary(operation, a, b)), want) << operation;
  }
  EXPECT_EQ(values<std::int64_t>(binary("power", integers({1, -1, -1, 2, 0}), integers({-3, -3, -2, -1, 3}))),
            (Integers{1, -1, 1, 0, 0}));
  EXPECT_EQ(values<std::int64_t>(binary("shift_right", integers({-8, 8, -8}), integers({1, 70, 64}))),
            (Integers{-4, 0, -1}));
}

TEST(ElementWiseBinary, NoIntegerEndsTheProgram) {
  constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
  const Tensor a = integers({kLowest, 5, kLowest});
  const Tensor b = integers({-1, 0, 0});
  EXPECT_EQ(values<std::int64_t>(binary("divide", a, b)), (Integers{kLowest, 0, 0}));
  EXPECT_EQ(values<std::int64_t>(binary("floor_div", a, b)), (Integers{kLowest, 0, 0}));
  EXPECT_EQ(values<std::int64_t>(binary("mod", a, b)), (Integers{0, 0, 0}));
  EXPECT_EQ(values<std::int64_t>(binary("fmod", a, b)), (Integers{0, 0, 0}));
  EXPECT_EQ(values<std::int64_t>(binary("add", a, a)), (Integers{0, 10, 0}));
  EXPECT_EQ(values<std::int64_t>(unary("abs", a)), (Integers{kLowest, 5, kLowest}));
}

TEST(ElementWiseBinary, LogicOfBool) {
  const Tensor a = logic({0, 0, 1, 1});
  const Tensor b = logic({0, 1, 0, 1});
  EXPECT_EQ(values<std::uint8_t>(binary("and", a, b)), (Bytes8{0, 0, 0, 1}));
  EXPECT_EQ(values<std::uint8_t>(binary("or", a, b)), (Bytes8{0, 1, 1, 1}));
  EXPECT_EQ(values<std::uint8_t>(binary("xor", a, b)), (Bytes8{0, 1, 1, 0}));
  EXPECT_EQ(values<std::uint8_t>(binary("add", a, b)), (Bytes8{0, 1, 1, 1}));
  EXPECT_EQ(values<std::uint8_t>(binary("multiply", a, b)), (Bytes8{0, 0, 0, 1}));
  EXPECT_EQ(values<std::uint8_t>(binary("equal", a, b)), (Bytes8{1, 0, 0, 1}));
  EXPECT_EQ(values<std::uint8_t>(unary("not", a)), (Bytes8{1, 1, 0, 0}));
}

TEST(ElementWiseBinary, RefusesWhatHasNoMeaning) {
  const Tensor real = floats({1});
  const Tensor whole = integers({1});
  const Tensor truth = logic({1});
  EXPECT_FALSE(binary("and", real, real));
  EXPECT_FALSE(binary("and", whole, whole));
  EXPECT_FALSE(binary("shift_left", real, real));
  EXPECT_FALSE(binary("subtract", truth, truth));
  EXPECT_FALSE(binary("divide", truth, truth));
  EXPECT_FALSE(binary("atan2", whole, whole));
  EXPECT_FALSE(binary("add", real, whole));
  EXPECT_FALSE(binary("no_such_operation", real, real));
  EXPECT_FALSE(binary("add", floats({1, 2}), floats({1, 2, 3})));
  EXPECT_FALSE(unary("not", real));
  EXPECT_FALSE(unary("exp", whole));
  EXPECT_FALSE(unary("bit_not", real));
}

TEST(ElementWiseBinary, AnActivationNeedsRealResults) {
  const auto with_relu = [](const char* operation, const Tensor& a, const Tensor& b) {
    return call("ElementWiseBinary", {{"operation", std::string(operation)}, {"activation", std::string("relu")}},
                {a, b});
  };
  expect_close("divide", with_relu("divide", floats({-1, 4, kNan}), floats({2})), {0.0F, 2.0F, kNan});
  EXPECT_FALSE(with_relu("less", floats({1}), floats({2})));
  EXPECT_FALSE(with_relu("add", integers({1}), integers({2})));
  EXPECT_FALSE(with_relu("or", logic({1}), logic({0})));
}

TEST(ElementWiseBinary, PowersByAConstant) {
  const Tensor x = floats({-2.0F, 0.1F, 3.0F, kNan, -kInf});
  const auto power = [&x](float exponent) {
    return call("ElementWiseBinary", {{"operation", std::string("power")}}, {x, floats({exponent}, {})}, true);
  };
  expect_close("2", power(2), {4.0F, 0.01F, 9.0F, kNan, kInf});
  expect_close("3", power(3), {-8.0F, 0.001F, 27.0F, kNan, -kInf});
  expect_close("0.5", power(0.5F), {kNan, 0.31622776F, 1.7320508F, kNan, kInf});
}

/// Subtraction of numbers that tell where they come from, by a walk over every index.
void expect_broadcast(const Shape& a, const Shape& b) {
  const auto count_up = [](const Shape& shape, float step) {
    Floats numbers(static_cast<std::size_t>(element_count(shape)));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = step * static_cast<float>(i + 1);
    return floats(numbers, shape);
  };
  const Tensor x = count_up(a, 1.0F);
  const Tensor y = count_up(b, 1000.0F);
  const auto got = binary("subtract", x, y);
  ASSERT_TRUE(got) << got.error().summary();
  const Shape& shape = got->shape();
  const auto element = [&shape](const Tensor& tensor, std::int64_t index) {
    std::int64_t offset = 0;
    std::int64_t stride = 1;
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      const std::int64_t position = index % shape[axis];
      index /= shape[axis];
      const std::size_t behind = shape.size() - axis;
      if (behind > tensor.shape().size()) continue;
      const std::int64_t size = tensor.shape()[tensor.shape().size() - behind];
      if (size != 1) offset += position * stride;
      stride *= size;
    }
    return tensor.data<float>()[static_cast<std::size_t>(offset)];
  };
  for (std::int64_t i = 0; i < got->count(); ++i) {
    EXPECT_EQ(got->data<float>()[static_cast<std::size_t>(i)], element(x, i) - element(y, i))
        << to_string(a) << " " << to_string(b) << " [" << i << "]";
  }
}

TEST(Broadcast, EveryElementMeetsItsPartner) {
  const std::vector<Shape> shapes = {{},           {1},          {4},          {3, 1},       {3, 4},       {2, 1, 1},
                                     {2, 1, 4},    {2, 3, 1},    {2, 3, 4},    {1, 1, 1},    {5, 1, 1, 1}, {5, 1, 3, 1},
                                     {5, 2, 1, 4}, {1, 2, 3, 1}, {5, 2, 3, 4}, {5, 2, 1, 1}, {1, 2, 1, 4}};
  for (const Shape& a : shapes) {
    for (const Shape& b : shapes) expect_broadcast(a, b);
  }
}

TEST(Broadcast, AxesWithoutElements) {
  const auto empty = binary("add", floats({}, {0, 3}), floats({1, 2, 3}));
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->shape(), (Shape{0, 3}));
  EXPECT_EQ(binary("add", floats({}, {2, 0}), floats({5}, {}))->shape(), (Shape{2, 0}));
  EXPECT_EQ(binary("less", floats({}, {0}), floats({5}))->shape(), (Shape{0}));
  EXPECT_FALSE(binary("add", floats({}, {0}), floats({1, 2})));
  EXPECT_TRUE(unary("exp", floats({}, {0, 4})));
  EXPECT_TRUE(call("Cast", {{"to", std::string("i64")}}, {floats({}, {0})}));
  EXPECT_TRUE(call("ElementWiseSelect", {}, {logic({}, {0}), floats({1}), floats({2})}));
}

TEST(Broadcast, JoinsAxesThatAreWalkedAlike) {
  const Shape whole = {2, 3, 4, 5};
  EXPECT_EQ(ops::plan_broadcast({&whole, &whole}, whole).run, 120);
  const Shape channels = {3, 1, 1};
  const ops::BroadcastPlan plan = ops::plan_broadcast({&whole, &channels}, whole);
  EXPECT_EQ(plan.run, 20);
  EXPECT_EQ(plan.runs, 6);
  EXPECT_TRUE(plan.repeats[1]);
  const Shape scalar;
  EXPECT_EQ(ops::plan_broadcast({&scalar, &whole}, whole).run, 120);
  EXPECT_EQ(ops::plan_broadcast({&scalar, &scalar}, scalar).runs, 1);
}

}  // namespace
}  // namespace htpipe
