// The other elementwise operators on plain values. Numbers are PyTorch 2.13's: torch.NAME of the same
// operands.
#include <limits>
#include <string>
#include <vector>

#include "ops/plain_call_test.h"

namespace htpipe {
namespace {

using namespace plain;

TEST(ElementWiseUnary, RealNumbersAsInPyTorch) {
  const Tensor x = floats({-2.5F, -0.5F, 0.0F, 0.5F, 1.5F, 2.5F, kNan, kInf, -kInf});
  const std::vector<std::pair<const char*, Floats>> cases = {
      {"abs", {2.5F, 0.5F, 0.0F, 0.5F, 1.5F, 2.5F, kNan, kInf, kInf}},
      {"acos", {kNan, 2.094395160675049F, 1.5707963705062866F, 1.0471975803375244F, kNan, kNan, kNan, kNan, kNan}},
      {"acosh", {kNan, kNan, kNan, kNan, 0.9624236822128296F, 1.566799283027649F, kNan, kInf, kNan}},
      {"asin", {kNan, -0.5235987901687622F, 0.0F, 0.5235987901687622F, kNan, kNan, kNan, kNan, kNan}},
      {"asinh",
       {-1.6472312211990356F, -0.4812118411064148F, 0.0F, 0.4812118411064148F, 1.19476318359375F, 1.6472312211990356F,
        kNan, kInf, -kInf}},
      {"atan",
       {-1.1902899742126465F, -0.46364760398864746F, 0.0F, 0.46364760398864746F, 0.9827936887741089F,
        1.1902899742126465F, kNan, 1.5707963705062866F, -1.5707963705062866F}},
      {"atanh", {kNan, -0.5493061542510986F, 0.0F, 0.5493061542510986F, kNan, kNan, kNan, kNan, kNan}},
      {"ceil", {-2.0F, -0.0F, 0.0F, 1.0F, 2.0F, 3.0F, kNan, kInf, -kInf}},
      {"cos",
       {-0.8011435866355896F, 0.8775825500488281F, 1.0F, 0.8775825500488281F, 0.07073719799518585F,
        -0.8011435866355896F, kNan, kNan, kNan}},
      {"cosh",
       {6.132289409637451F, 1.1276259422302246F, 1.0F, 1.1276259422302246F, 2.352409601211548F, 6.132289409637451F,
        kNan, kInf, kInf}},
      {"erf",
       {-0.9995930194854736F, -0.5204998850822449F, 0.0F, 0.5204998850822449F, 0.9661051630973816F, 0.9995930194854736F,
        kNan, 1.0F, -1.0F}},
      {"exp",
       {0.08208499848842621F, 0.6065306663513184F, 1.0F, 1.6487212181091309F, 4.481688976287842F, 12.182494163513184F,
        kNan, kInf, 0.0F}},
      {"floor", {-3.0F, -1.0F, 0.0F, 0.0F, 1.0F, 2.0F, kNan, kInf, -kInf}},
      {"log", {kNan, kNan, -kInf, -0.6931471824645996F, 0.40546512603759766F, 0.9162907600402832F, kNan, kInf, kNan}},
      {"neg", {2.5F, 0.5F, -0.0F, -0.5F, -1.5F, -2.5F, kNan, -kInf, kInf}},
      {"reciprocal",
       {-0.4000000059604645F, -2.0F, kInf, 2.0F, 0.6666666865348816F, 0.4000000059604645F, kNan, 0.0F, -0.0F}},
      {"round", {-2.0F, -0.0F, 0.0F, 0.0F, 2.0F, 2.0F, kNan, kInf, -kInf}},
      {"rsqrt", {kNan, kNan, kInf, 1.4142135381698608F, 0.8164965510368347F, 0.6324555277824402F, kNan, 0.0F, kNan}},
      {"sign", {-1.0F, -1.0F, 0.0F, 1.0F, 1.0F, 1.0F, 0.0F, 1.0F, -1.0F}},
      {"sin",
       {-0.5984721183776855F, -0.4794255495071411F, 0.0F, 0.4794255495071411F, 0.9974949955940247F, 0.5984721183776855F,
        kNan, kNan, kNan}},
      {"sinh",
       {-6.050204753875732F, -0.5210952758789062F, 0.0F, 0.5210952758789062F, 2.129279375076294F, 6.050204753875732F,
        kNan, kInf, -kInf}},
      {"sqrt", {kNan, kNan, 0.0F, 0.7071067690849304F, 1.2247449159622192F, 1.5811388492584229F, kNan, kInf, kNan}},
      {"tan",
       {0.7470223307609558F, -0.5463024973869324F, 0.0F, 0.5463024973869324F, 14.101419448852539F, -0.7470223307609558F,
        kNan, kNan, kNan}},
      {"trunc", {-2.0F, -0.0F, 0.0F, 0.0F, 1.0F, 2.0F, kNan, kInf, -kInf}},
  };
  for (const auto& [operation, want] : cases) expect_close(operation, unary(operation, x), want);
}

TEST(ElementWiseUnary, Integers) {
  const Tensor x = integers({-3, 0, 4});
  EXPECT_EQ(values<std::int64_t>(unary("abs", x)), (Integers{3, 0, 4}));
  EXPECT_EQ(values<std::int64_t>(unary("neg", x)), (Integers{3, 0, -4}));
  EXPECT_EQ(values<std::int64_t>(unary("sign", x)), (Integers{-1, 0, 1}));
  EXPECT_EQ(values<std::int64_t>(unary("bit_not", x)), (Integers{2, -1, -5}));
  EXPECT_EQ(values<std::int64_t>(unary("floor", x)), (Integers{-3, 0, 4}));
}

TEST(ElementWiseNeuron, AsInPyTorch) {
  const Tensor x = floats({-2.5F, -0.5F, 0.0F, 0.5F, 1.5F, 2.5F, kNan, kInf, -kInf});
  const auto neuron = [&x](const char* operation, Attributes attributes = {}) {
    attributes.set("operation", std::string(operation));
    return call("ElementWiseNeuron", attributes, {x});
  };
  expect_close("relu", neuron("relu"), {0.0F, 0.0F, 0.0F, 0.5F, 1.5F, 2.5F, kNan, kInf, 0.0F});
  expect_close("relu6", neuron("relu_min_max"), {0.0F, 0.0F, 0.0F, 0.5F, 1.5F, 2.5F, kNan, 6.0F, 0.0F});
  expect_close("sigmoid", neuron("sigmoid"),
               {0.07585817575454712F, 0.3775406777858734F, 0.5F, 0.622459352016449F, 0.8175744414329529F,
                0.9241418242454529F, kNan, 1.0F, 0.0F});
  expect_close("tanh", neuron("tanh"),
               {-0.9866142868995667F, -0.46211716532707214F, 0.0F, 0.46211716532707214F, 0.9051482677459717F,
                0.9866142868995667F, kNan, 1.0F, -1.0F});
  // The gelus: of float64 operands, rounded; in float32 PyTorch loses six bits of small results.
  expect_close("gelu_tanh", neuron("gelu_tanh"),
               {-0.015084265731275082F, -0.1542859971523285F, 0.0F, 0.3457140028476715F, 1.3995715379714966F,
                2.4849157333374023F, kNan, kInf, kNan});
  expect_close("hard_sigmoid", neuron("hard_sigmoid"),
               {0.0833333358168602F, 0.4166666567325592F, 0.5F, 0.5833333134651184F, 0.75F, 0.9166666865348816F, kNan,
                1.0F, 0.0F});
  expect_close("hard_swish", neuron("hard_swish"),
               {-0.2083333283662796F, -0.2083333283662796F, 0.0F, 0.2916666567325592F, 1.125F, 2.2916667461395264F,
                kNan, kInf, kNan});
  expect_close("elu", neuron("elu", {{"alpha", 1.3F}}),
               {-1.1932893991470337F, -0.5115101337432861F, 0.0F, 0.5F, 1.5F, 2.5F, kNan, kInf, -1.2999999523162842F});
  expect_close("softplus", neuron("softplus", {{"beta", 2.0F}, {"threshold", 3.0F}}),
               {0.003357674228027463F, 0.15663084387779236F, 0.3465735912322998F, 0.65663081407547F,
                1.5242936611175537F, 2.5F, kNan, kInf, 0.0F});
  // PyTorch's vector code makes NaN of gelu(infinity), its scalar code does not.
  expect_close("gelu", neuron("gelu"),
               {-0.015524162910878658F, -0.1542687714099884F, 0.0F, 0.3457312285900116F, 1.3997892141342163F,
                2.48447585105896F, kNan, kInf, kNan});
  EXPECT_EQ(values<std::int64_t>(call("ElementWiseNeuron", {{"operation", std::string("relu")}}, {integers({-2, 3})})),
            (Integers{0, 3}));
  EXPECT_FALSE(neuron("softplus", {{"beta", 0.0F}}));
  EXPECT_FALSE(neuron("relu_min_max", {{"min_value", 1.0F}, {"max_value", 0.0F}}));
}

TEST(ElementWiseSelect, Broadcasts) {
  const auto select = [](const Tensor& condition, const Tensor& a, const Tensor& b) {
    return call("ElementWiseSelect", {}, {condition, a, b});
  };
  expect_close("rows", select(logic({1, 0}, {2, 1}), floats({1, 2, 3}), floats({9}, {})), {1, 2, 3, 9, 9, 9});
  expect_close("equal", select(logic({1, 0, 1}), floats({1, 2, 3}), floats({kNan, 5, kNan})), {1, 5, 3});
  EXPECT_EQ(values<std::int64_t>(select(logic({0}, {}), integers({1, 2}), integers({7}))), (Integers{7, 7}));
  EXPECT_EQ(values<std::uint8_t>(select(logic({0, 1}), logic({1}), logic({0}))), (Bytes8{0, 1}));
  EXPECT_FALSE(select(floats({1}), floats({1}), floats({2})));
  EXPECT_FALSE(select(logic({1}), floats({1}), integers({2})));
}

TEST(Prelu, BroadcastsItsCoefficients) {
  const Tensor x = floats({-1, 2, kNan, -3, -4, 0}, {2, 3});
  expect_close("last axis", call("Prelu", {}, {x, floats({0.25F, 0.5F, 2.0F})}), {-0.25F, 2, kNan, -0.75F, -2, 0});
  expect_close("first axis", call("Prelu", {}, {x, floats({0.5F, 2.0F}, {2, 1})}), {-0.5F, 2, kNan, -6, -8, 0});
  EXPECT_FALSE(call("Prelu", {}, {floats({1}), floats({1, 2})}));
  EXPECT_FALSE(call("Prelu", {}, {integers({1}), integers({1})}));
}

TEST(IsNanAndIsInf, LookAtEveryBit) {
  const Tensor x = floats({kNan, -kNan, kInf, -kInf, std::numeric_limits<float>::max(), 0.0F});
  EXPECT_EQ(values<std::uint8_t>(call("IsNan", {}, {x})), (Bytes8{1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(values<std::uint8_t>(call("IsInf", {}, {x})), (Bytes8{0, 0, 1, 1, 0, 0}));
  EXPECT_EQ(values<std::uint8_t>(call("IsInf", {{"detect_negative", false}}, {x})), (Bytes8{0, 0, 1, 0, 0, 0}));
  EXPECT_EQ(values<std::uint8_t>(call("IsInf", {{"detect_positive", false}}, {x})), (Bytes8{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(values<std::uint8_t>(call("IsInf", {{"detect_positive", false}, {"detect_negative", false}}, {x})),
            (Bytes8{0, 0, 0, 0, 0, 0}));
  const std::vector<double> wide = {1e300, std::numeric_limits<double>::infinity(),
                                    std::numeric_limits<double>::quiet_NaN()};
  const Tensor doubles = Tensor::from<double>({DType::kF64, {3}, std::nullopt}, wide);
  EXPECT_EQ(values<std::uint8_t>(call("IsInf", {}, {doubles})), (Bytes8{0, 1, 0}));
  EXPECT_EQ(values<std::uint8_t>(call("IsNan", {}, {doubles})), (Bytes8{0, 0, 1}));
  const std::vector<std::uint16_t> halves = {to_f16(kInf), to_f16(-kInf), to_f16(kNan), to_f16(65504.0F)};
  const Tensor half = Tensor::from<std::uint16_t>({DType::kF16, {4}, std::nullopt}, halves);
  EXPECT_EQ(values<std::uint8_t>(call("IsInf", {}, {half})), (Bytes8{1, 1, 0, 0}));
  EXPECT_EQ(values<std::uint8_t>(call("IsNan", {}, {half})), (Bytes8{0, 0, 1, 0}));
  EXPECT_FALSE(call("IsNan", {}, {integers({1})}));
}

template <typename T>
std::vector<T> cast(const char* to, const Tensor& tensor) {
  return values<T>(call("Cast", {{"to", std::string(to)}}, {tensor}));
}

TEST(Cast, RealNumbersAsInPyTorch) {
  const Tensor x = floats({-1.5F, -0.5F, 0.9F, 2.7F, 300.7F, -300.2F, 70000.9F});
  EXPECT_EQ(cast<std::int64_t>("i64", x), (Integers{-1, 0, 0, 2, 300, -300, 70000}));
  EXPECT_EQ(cast<std::int32_t>("i32", x), (std::vector<std::int32_t>{-1, 0, 0, 2, 300, -300, 70000}));
  EXPECT_EQ(cast<std::int16_t>("i16", x), (std::vector<std::int16_t>{-1, 0, 0, 2, 300, -300, 4464}));
  EXPECT_EQ(cast<std::int8_t>("i8", x), (std::vector<std::int8_t>{-1, 0, 0, 2, 44, -44, 112}));
  EXPECT_EQ(cast<std::uint8_t>("u8", x), (Bytes8{255, 0, 0, 2, 44, 212, 112}));
  EXPECT_EQ(cast<std::uint8_t>("bool", x), (Bytes8{1, 1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(cast<std::uint8_t>("bool", floats({0.0F, -0.0F, kNan})), (Bytes8{0, 0, 1}));
  EXPECT_EQ(cast<double>("f64", floats({0.1F})), (std::vector<double>{static_cast<double>(0.1F)}));
  const auto half = cast<std::uint16_t>("f16", x);
  EXPECT_EQ(from_f16(half[2]), 0.89990234375F);
  EXPECT_EQ(from_f16(half[6]), kInf);
  const auto brain = cast<std::uint16_t>("bf16", x);
  EXPECT_EQ(from_bf16(brain[2]), 0.8984375F);
  EXPECT_EQ(from_bf16(brain[6]), 70144.0F);
}

TEST(Cast, WhatDoesNotFitIsDefined) {
  const Tensor x = floats({kNan, kInf, -kInf, 1e30F, -1e30F});
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(cast<std::int64_t>("i64", x), (Integers{0, kMax, kMin, kMax, kMin}));
  EXPECT_EQ(cast<std::int32_t>("i32", x), (std::vector<std::int32_t>{0, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN}));
  EXPECT_EQ(cast<std::uint64_t>("u64", x), (std::vector<std::uint64_t>{0, UINT64_MAX, 0, UINT64_MAX, 0}));
}

TEST(Cast, Integers) {
  const Tensor x = integers({-1, 255, 256, 1, 0});
  EXPECT_EQ(cast<std::uint8_t>("u8", x), (Bytes8{255, 255, 0, 1, 0}));
  EXPECT_EQ(cast<std::int8_t>("i8", x), (std::vector<std::int8_t>{-1, -1, 0, 1, 0}));
  EXPECT_EQ(cast<std::uint8_t>("bool", x), (Bytes8{1, 1, 1, 1, 0}));
  EXPECT_EQ(cast<float>("f32", x), (Floats{-1, 255, 256, 1, 0}));
  EXPECT_EQ(cast<std::int64_t>("i64", logic({1, 0})), (Integers{1, 0}));
  EXPECT_EQ(cast<float>("f32", logic({1, 0})), (Floats{1, 0}));
  const std::vector<std::uint64_t> large = {UINT64_MAX};
  EXPECT_EQ(cast<float>("f32", Tensor::from<std::uint64_t>({DType::kU64, {1}, std::nullopt}, large)),
            (Floats{18446744073709551616.0F}));
  EXPECT_FALSE(call("Cast", {{"to", std::string("f31")}}, {x}));
}

}  // namespace
}  // namespace htpipe
