// The quantised graph: names, types and conversions, and that it computes what the float graph computes.
#include "quant/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "exec/program.h"
#include "ir/text.h"
#include "ops/registry.h"

namespace htpipe::quant {
namespace {

using ::testing::ElementsAre;

const char* const kNet = R"(graph @net(%x: f32[1,8,8,3]) -> (%y) {
  %w = const f32[3,3,3,8] random 1
  %b = const f32[8] random 2
  %c = Conv2d(%x, %w, %b) {data_layout="nhwc", pad_amount=[1,1,1,1], activation="relu"}
  %p = PoolMax2d(%c) {data_layout="nhwc", filter_size=[2,2], stride=[2,2]}
  %k = const f32[8] [0.5,-0.25,1,0.75,-1,0.125,2,0.3]
  %m = ElementWiseBinary(%p, %k) {operation="multiply"}
  %f = Reshape(%m) {shape=[1,128]}
  %v = const f32[5,128] random 3
  %y = FullyConnected(%f, %v, _)
})";

Graph net() {
  register_all_ops();
  auto graph = parse_graph(kNet);
  EXPECT_TRUE(graph) << graph.error().summary();
  return std::move(*graph);
}

Tensor image(unsigned seed) {
  std::mt19937 random(seed);
  Tensor tensor({DType::kF32, {1, 8, 8, 3}, std::nullopt});
  for (float& x : tensor.mutable_data<float>())
    x = static_cast<float>(static_cast<double>(random()) / 2147483648.0 - 1.0);
  return tensor;
}

Ranges ranges_of(const Graph& graph) {
  const SampleSource source{
      8, [](std::int64_t i) { return Result<std::vector<Tensor>>({image(static_cast<unsigned>(i))}); }};
  const auto statistics = calibrate(graph, source);
  EXPECT_TRUE(statistics) << statistics.error().summary();
  return choose_ranges(*statistics, RangeMethod::kMinMax, 100, 8);
}

std::vector<std::string> nodes(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& node : graph.nodes()) names.push_back(std::string(node->op->name) + " " + node->name());
  return names;
}

/// Largest difference from the float graph's output, in parts of its largest value.
double deviation(const Graph& graph, const Graph& quantized) {
  const Tensor real = image(99);
  const auto want = run_once(graph, std::vector<Tensor>{real});
  const auto got = run_once(quantized, std::vector<Tensor>{store_as(real, quantized.inputs()[0]->type)}, 75);
  EXPECT_TRUE(got) << got.error().summary();
  double largest = 0;
  double worst = 0;
  for (std::int64_t i = 0; i < (*want)[0].count(); ++i) {
    largest = std::max(largest, std::fabs((*want)[0].real(i)));
    worst = std::max(worst, std::fabs((*want)[0].real(i) - (*got)[0].real(i)));
  }
  return worst / largest;
}

TEST(Quantize, EveryPrecisionComputesTheSameNearly) {
  const Graph graph = net();
  const Ranges ranges = ranges_of(graph);
  const auto with = [&](Precision precision, int bits) {
    QuantizeOptions options;
    options.default_precision = precision;
    options.weight_bits = bits;
    auto quantized = quantize(graph, ranges, options);
    EXPECT_TRUE(quantized) << quantized.error().summary();
    return deviation(graph, *quantized);
  };
  const double int8 = with(Precision::kInt8, 8);
  const double int16 = with(Precision::kInt16, 8);
  const double half = with(Precision::kFp16, 8);
  const double int4 = with(Precision::kInt8, 4);
  EXPECT_LT(int8, 0.08);
  EXPECT_LT(int16, 0.03);
  EXPECT_LT(half, 2e-3);
  EXPECT_LT(half, int16);
  EXPECT_LT(int16, int8);
  EXPECT_LT(int8, int4);
  EXPECT_LT(int4, 0.5);
}

TEST(Quantize, NamesTypesAndEncodings) {
  const Graph graph = net();
  const Ranges ranges = ranges_of(graph);
  const auto quantized = quantize(graph, ranges, {});
  ASSERT_TRUE(quantized) << quantized.error().summary();
  EXPECT_EQ(nodes(*quantized), nodes(graph));
  for (const auto& value : graph.values()) {
    const Value* made = quantized->find_value(value->name);
    ASSERT_NE(made, nullptr) << value->name;
    EXPECT_EQ(made->type.shape, value->type.shape);
    EXPECT_TRUE(made->type.encoding) << value->name;
  }
  EXPECT_EQ(quantized->find_value("c")->type.encoding->zero_point(), 0);  // relu: the encoding clamps
  EXPECT_EQ(quantized->find_value("p")->type.encoding, quantized->find_value("c")->type.encoding);  // copies
  EXPECT_EQ(quantized->find_value("f")->type.encoding, quantized->find_value("m")->type.encoding);
  EXPECT_EQ(quantized->find_value("w")->type.encoding->axis, 3);
  EXPECT_EQ(quantized->find_value("v")->type.encoding->axis, 0);
  EXPECT_EQ(quantized->find_value("b")->type.dtype, DType::kI32);
  EXPECT_EQ(quantized->find_value("k")->type.dtype, DType::kU8);
  EXPECT_TRUE(verify(*quantized));
}

TEST(Quantize, ConversionsStandOncePerValueAndPrecision) {
  const Graph graph = net();
  QuantizeOptions options;
  options.precisions = {{"m", Precision::kInt16}, {"y", Precision::kFp16}};
  const auto quantized = quantize(graph, ranges_of(graph), options);
  ASSERT_TRUE(quantized) << quantized.error().summary();
  EXPECT_THAT(nodes(*quantized), ElementsAre("Conv2d c", "PoolMax2d p", "Convert p_u16", "ElementWiseBinary m",
                                             "Reshape f", "Dequantize f_f16", "FullyConnected y"));
  EXPECT_EQ(quantized->find_value("m")->type.dtype, DType::kU16);
  EXPECT_EQ(quantized->find_value("f")->type.dtype, DType::kU16);  // a copy follows its input
  EXPECT_EQ(quantized->find_value("v")->type.dtype, DType::kF16);
  EXPECT_LT(deviation(graph, *quantized), 0.08);
  const PrecisionMap precisions = precisions_of(*quantized);
  EXPECT_EQ(precisions.size(), 5U);
  EXPECT_EQ(precisions.at("c"), Precision::kInt8);
  EXPECT_EQ(precisions.at("f"), Precision::kInt16);
  EXPECT_EQ(precisions.at("y"), Precision::kFp16);
}

TEST(Quantize, SoftmaxHasAScaleOfWholeUnits) {
  register_all_ops();
  const auto graph = parse_graph("graph @g(%x: f32[1,300]) -> (%y) { %y = Softmax(%x) {axis=1} }");
  ASSERT_TRUE(graph);
  const Ranges ranges = {{"x", {-4, 4}}, {"y", {0, 0.0123F}}};
  const auto quantized = quantize(*graph, ranges, {});
  ASSERT_TRUE(quantized) << quantized.error().summary();
  const TensorType& type = quantized->outputs()[0]->type;
  EXPECT_EQ(type.encoding->zero_point(), 0);
  EXPECT_EQ(type.encoding->scale(), 4.0F / 65536);  // 0.0123 / 255 is 3.16 units
}

TEST(Quantize, Errors) {
  const Graph graph = net();
  Ranges ranges = ranges_of(graph);
  ranges.erase("m");
  const auto missing = quantize(graph, ranges, {});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNoEncoding);
  EXPECT_EQ(missing.error().place.node, "m");

  const auto channel_first = parse_graph(R"(graph @g(%x: f32[1,3,8,8]) -> (%c) {
    %w = const f32[8,3,3,3] random 1
    %c = Conv2d(%x, %w, _)
  })");
  ASSERT_TRUE(channel_first);
  const auto refused = quantize(*channel_first, {{"x", {-1, 1}}, {"c", {-5, 5}}}, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupportedForm);
  EXPECT_EQ(refused.error().place.node, "c");
}

}  // namespace
}  // namespace htpipe::quant
