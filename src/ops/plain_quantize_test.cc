// Quantize and Dequantize without a chip, as ONNX defines them; encodings per tensor, channel and block; their text form.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "ir/text.h"
#include "ops/evaluate.h"
#include "ops/registry.h"

namespace htpipe {
namespace {

Tensor floats(Shape shape, const std::vector<float>& values) {
  return Tensor::from<float>({DType::kF32, std::move(shape), std::nullopt}, values);
}

/// The stored integers of `values` in the encoding.
std::vector<std::int64_t> quantized(const Tensor& values, DType to, const Encoding& encoding) {
  register_all_ops();
  Graph graph("g");
  Value* input = graph.add_constant("x", values);
  const auto node = graph.add_node("Quantize", "q", {{"to", std::string(name_of(to))}}, {input});
  EXPECT_TRUE(node);
  (*node)->result()->type.encoding = encoding;
  const auto results = evaluate(**node, 1024);
  EXPECT_TRUE(results) << results.error().summary();
  std::vector<std::int64_t> stored;
  const Tensor plain = results->front().with_type({to, values.shape(), std::nullopt});
  for (std::int64_t i = 0; i < plain.count(); ++i) stored.push_back(static_cast<std::int64_t>(plain.real(i)));
  return stored;
}

TEST(PlainQuantize, HalvesGoToTheEvenNeighbour) {
  const Tensor x = floats({8}, {0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 1e9F, -1e9F, std::nanf("")});
  EXPECT_EQ(quantized(x, DType::kU8, Encoding::per_tensor(1, 10, 8)),
            (std::vector<std::int64_t>{10, 12, 12, 10, 8, 255, 0, 10}));
  EXPECT_EQ(quantized(x, DType::kI16, Encoding::per_tensor(1, 0, 16)),
            (std::vector<std::int64_t>{0, 2, 2, 0, -2, 32767, -32768, 0}));
  EXPECT_EQ(quantized(x, DType::kI8, Encoding::per_tensor(1, 0, 4)),
            (std::vector<std::int64_t>{0, 2, 2, 0, -2, 7, -8, 0}));
}

TEST(PlainQuantize, ScalesPerChannelAndPerBlock) {
  const Tensor x = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(quantized(x, DType::kI8, {{1, 2}, {0, 1}, 0, 8}), (std::vector<std::int64_t>{1, 2, 3, 3, 3, 4}));
  // Blocks of two along the last axis: the second one has a single element.
  EXPECT_EQ(quantized(x, DType::kI8, {{1, 0.5F, 2, 0.25F}, {0, 0, 0, 1}, 1, 8, 2}),
            (std::vector<std::int64_t>{1, 2, 6, 2, 2, 25}));
}

TEST(PlainQuantize, DequantizeGoesBack) {
  const Encoding blocks{{1, 0.5F, 2, 0.25F}, {0, 0, 0, 1}, 1, 8, 2};
  register_all_ops();
  Graph graph("g");
  const std::vector<std::int8_t> stored = {1, 2, 6, 2, 2, 25};
  const Tensor tensor = Tensor::from<std::int8_t>({DType::kI8, {2, 3}, blocks}, stored);
  const auto node = graph.add_node("Dequantize", "x", {{"to", std::string("f32")}}, {graph.add_constant("q", tensor)});
  ASSERT_TRUE(node);
  const auto results = evaluate(**node, 1024);
  ASSERT_TRUE(results);
  const std::vector<float> wanted = {1, 2, 3, 4, 4, 6};
  EXPECT_EQ(to_floats(results->front()), wanted);
  EXPECT_EQ(to_floats(tensor), wanted);
  // Scales move with their axes.
  const Tensor turned = transpose(tensor, {1, 0});
  EXPECT_EQ(turned.type().encoding->axis, 0);
  EXPECT_EQ(turned.type().encoding->scales, (std::vector<float>{1, 2, 0.5F, 0.25F}));
  EXPECT_EQ(to_floats(turned), (std::vector<float>{1, 4, 2, 4, 3, 6}));
}

TEST(PlainQuantize, TextFormOfBlocks) {
  register_all_ops();
  const std::string text =
      "graph @g(%x: f32[1,3]) -> (%y) {\n"
      "  %w = const i8<axis 1, block 2, scales [1,0.5], zeros [0,3], bits 4>[1,3] [1, 2, 3]\n"
      "  %d = Dequantize(%w) {to=\"f32\"}\n"
      "  %y = ElementWiseBinary(%x, %d) {operation=\"add\"}\n}\n";
  const auto graph = parse_graph(text);
  ASSERT_TRUE(graph) << graph.error().summary();
  const Encoding& encoding = *graph->find_value("w")->type.encoding;
  EXPECT_EQ(encoding, (Encoding{{1, 0.5F}, {0, 3}, 1, 4, 2}));
  const auto again = parse_graph(print(*graph));
  ASSERT_TRUE(again) << again.error().summary();
  EXPECT_EQ(print(*again), print(*graph));

  std::string wrong = text;
  wrong.replace(wrong.find("block 2"), 7, "block 0");
  EXPECT_FALSE(parse_graph(wrong));
  wrong.replace(wrong.find("block 0"), 7, "block 3");
  const auto misfit = parse_graph(wrong);
  EXPECT_FALSE(misfit && verify(*misfit)) << "two scales for one block";
}

}  // namespace
}  // namespace htpipe
