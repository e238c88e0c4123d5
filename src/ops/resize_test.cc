// Resize against ONNX Runtime, ONNX's reference evaluator and PyTorch.
// ONNX: a model of one Resize node (opset 19) on x[1,1,n] = the first n of kLine, run by onnxruntime 1.32 and by
// onnx.reference.ReferenceEvaluator (onnx 1.23); the numbers are those of both where both can compute the case, of the
// evaluator for cubic (the runtime has it for images only).
// PyTorch 2.13: torch.nn.functional.interpolate(x, size, mode=..., align_corners=..., antialias=...) on kImage.
#include <gtest/gtest.h>

#include "ops/one_op_test.h"

namespace htpipe::ops::testing {
namespace {

const Floats kLine = {1, -2, 4, 3, -5, 7, 2, -1};
const Floats kImage = {1, -2, 4, 3, -5, 7, 2, -1, 0.5F, 6, -3, 2.5F};

Attributes modes(const std::string& interpolation, const std::string& transformation, Attributes more = {}) {
  more.set("interpolation_mode", interpolation);
  more.set("transformation_mode", transformation);
  return more;
}

/// The first `count` numbers of kLine by a scale of the model.
Floats scaled(std::int64_t count, float scale, std::int64_t out, Attributes attributes) {
  attributes.set("scales", Floats{scale});
  attributes.set("sizes", IntList{out});
  return run("Resize", attributes, {floats({1, 1, count}, Floats(kLine.begin(), kLine.begin() + count))}).values();
}
/// … and by a size alone.
Floats sized(std::int64_t count, std::int64_t out, Attributes attributes) {
  attributes.set("sizes", IntList{out});
  return run("Resize", attributes, {floats({1, 1, count}, Floats(kLine.begin(), kLine.begin() + count))}).values();
}

TEST(Resize, OnnxNearest) {
  const auto five = [](const char* mode) { return scaled(5, 1.7F, 8, modes("nearest", mode)); };
  EXPECT_EQ(five("half_pixel"), (Floats{1, 1, -2, 4, 4, 3, 3, -5}));
  EXPECT_EQ(five("pytorch_half_pixel"), (Floats{1, 1, -2, 4, 4, 3, 3, -5}));
  EXPECT_EQ(five("align_corners"), (Floats{1, -2, -2, 4, 4, 3, 3, -5}));
  EXPECT_EQ(five("asymmetric"), (Floats{1, -2, -2, 4, 4, 3, -5, -5}));
  EXPECT_EQ(five("half_pixel_symmetric"), (Floats{1, -2, -2, 4, 4, 3, 3, -5}));
  EXPECT_EQ(scaled(4, 2, 8, modes("nearest", "tf_half_pixel_for_nn", {{"nearest_mode", std::string("floor")}})),
            (Floats{1, 1, -2, -2, 4, 4, 3, 3}));
}

TEST(Resize, OnnxNearestModes) {
  const auto shrink = [](const char* mode) {
    return sized(6, 4, modes("nearest", "half_pixel", {{"nearest_mode", std::string(mode)}}));
  };
  EXPECT_EQ(shrink("round_prefer_floor"), (Floats{1, 4, 3, 7}));
  EXPECT_EQ(shrink("round_prefer_ceil"), (Floats{1, 4, 3, 7}));
  EXPECT_EQ(shrink("floor"), (Floats{1, -2, 3, -5}));
  EXPECT_EQ(shrink("ceil"), (Floats{-2, 4, -5, 7}));
  const auto grow = [](const char* mode) {
    return scaled(4, 2, 8, modes("nearest", "asymmetric", {{"nearest_mode", std::string(mode)}}));
  };
  EXPECT_EQ(grow("round_prefer_floor"), (Floats{1, 1, -2, -2, 4, 4, 3, 3}));
  EXPECT_EQ(grow("round_prefer_ceil"), (Floats{1, -2, -2, 4, 4, 3, 3, 3}));
  EXPECT_EQ(grow("floor"), (Floats{1, 1, -2, -2, 4, 4, 3, 3}));
  EXPECT_EQ(grow("ceil"), (Floats{1, -2, -2, 4, 4, 3, 3, 3}));
}

TEST(Resize, OnnxLinear) {
  const auto five = [](const char* mode) { return scaled(5, 1.7F, 8, modes("linear", mode)); };
  const Floats half_pixel = {1.0F,        -0.147058666F, -1.91176462F, 1.35294151F,
                             3.85294151F, 3.26470566F,   0.411766052F, -4.29411697F};
  expect_near(five("half_pixel"), half_pixel);
  expect_near(five("pytorch_half_pixel"), half_pixel);
  // The runtime's: the evaluator takes the length 8.5 for the output.
  expect_near(five("align_corners"),
              {1.0F, -0.714285851F, -1.14285684F, 2.28571415F, 3.71428585F, 3.14285707F, -0.428571701F, -5.0F});
  expect_near(five("asymmetric"),
              {1.0F, -0.764705777F, -0.941176891F, 2.5882349F, 3.64705896F, 3.05882359F, -1.23529243F, -5.0F});
  expect_near(five("half_pixel_symmetric"),
              {1.0F, -0.588235259F, -1.29411781F, 2.23529387F, 3.70588255F, 3.11764717F, -0.764705658F, -5.0F});
  expect_near(scaled(8, 0.6F, 4, modes("linear", "half_pixel")), {5.96046448e-08F, 4.0F, -2.33333206F, 5.33333445F});
  expect_near(sized(5, 1, modes("linear", "half_pixel")), {4});
  expect_near(sized(5, 1, modes("linear", "pytorch_half_pixel")), {1});
  expect_near(sized(5, 1, modes("linear", "align_corners")), {1});
}

TEST(Resize, OnnxCubic) {
  const auto five = [](const char* mode, const Attributes& more = {}) {
    return scaled(5, 1.7F, 8, modes("cubic", mode, more));
  };
  // The evaluator computes coordinates in double precision, we as the runtime does in float32.
  const double tolerance = 8e-6;
  expect_near(
      five("half_pixel"),
      {1.29212785F, -0.51171577F, -2.05659699F, 1.25504971F, 4.46718931F, 4.33234501F, 0.45521301F, -4.43194818F},
      tolerance);
  expect_near(five("asymmetric"),
              {1.0F, -1.4379189F, -1.33228135F, 2.73905849F, 4.8124361F, 3.37390709F, -1.35253263F, -5.54955769F},
              tolerance);
  expect_near(
      five("half_pixel_symmetric"),
      {1.117239F, -1.1927526F, -1.61011422F, 2.33604765F, 4.75310373F, 3.70231962F, -0.834313989F, -5.31263685F},
      tolerance);
  expect_near(
      five("half_pixel", {{"exclude_outside", true}}),
      {1.35705411F, -0.362646341F, -2.05467343F, 1.25504935F, 4.46718597F, 4.33234501F, 0.180122063F, -4.46156979F},
      tolerance);
  expect_near(
      five("half_pixel", {{"cubic_coeff", -0.5F}}),
      {1.19475102F, -0.334596872F, -2.03518701F, 1.34568989F, 4.29195499F, 3.94593453F, 0.646717191F, -4.56267643F},
      tolerance);
}

TEST(Resize, OnnxAntialias) {
  const auto three = [](const char* mode, bool exclude) {
    return sized(8, 3, modes(mode, "half_pixel", {{"antialias", true}, {"exclude_outside", exclude}}));
  };
  expect_near(three("linear", false), {0.720930278F, 1.21428585F, 1.44186056F});
  expect_near(three("linear", true), {0.684210658F, 1.21428585F, 1.76315773F});
  expect_near(three("cubic", false), {0.807976425F, 1.41167974F, 1.56792974F});
  expect_near(three("cubic", true), {0.794397771F, 1.36022007F, 1.74951637F});
}

/// An image in both layouts.
void expect_image(const Shape& shape, const IntList& sizes, Attributes attributes, const Floats& want) {
  // PyTorch computes the weights in float32 too; steep cubic filters show its rounding and ours.
  const double tolerance = attributes.text("interpolation_mode") == "cubic" ? 1e-5 : 1e-6;
  attributes.set("sizes", sizes);
  const Operand image = floats(shape, kImage);
  const Ran first = run("Resize", attributes, {image});
  expect_near(first.values(), want, tolerance);
  attributes.set("data_layout", std::string("nhwc"));
  const Ran last = run("Resize", attributes, {permuted(image, to_last(shape.size()))});
  Shape out = {shape[0], shape[1]};
  out.insert(out.end(), sizes.begin(), sizes.end());
  EXPECT_EQ(first.shape(), out);
  ASSERT_EQ(last.error, "");
  EXPECT_EQ(last.values(), to_floats(transpose(first.results[0], to_last(shape.size()))));
}

TEST(Resize, PyTorchsNumbers) {
  const Shape image = {1, 1, 3, 4};
  expect_image(image, {5, 3}, modes("nearest", "asymmetric", {{"nearest_mode", std::string("floor")}}),
               {1, -2, 4, 1, -2, 4, -5, 7, 2, -5, 7, 2, 0.5F, 6, -3});  // nearest
  expect_image(image, {5, 3}, modes("nearest", "half_pixel", {{"nearest_mode", std::string("round_prefer_ceil")}}),
               {1, 4, 3, 1, 4, 3, -5, 2, -1, 0.5F, -3, 2.5F, 0.5F, -3, 2.5F});  // nearest-exact
  expect_image(image, {5, 3}, modes("linear", "half_pixel"),
               {0.49999994F, 1.0F, 3.16666651F, -0.900000036F, 2.4000001F, 1.69999957F, -2.99999976F, 4.5F,
                -0.500000477F, -0.34999916F, 2.69999981F, 0.750000715F, 1.41666687F, 1.5F, 1.58333421F});
  expect_image(image, {5, 3}, modes("linear", "align_corners"),
               {1, 1, 3, -2, 2.75F, 1, -5, 4.5F, -1, -2.25F, 3, 0.75F, 0.5F, 1.5F, 2.5F});
  expect_image(image, {4, 3}, modes("cubic", "half_pixel"),
               {0.727713645F, 0.446884155F, 3.52789783F, -2.38282681F, 4.55479431F, 0.507671297F, -1.9218632F,
                4.87806702F, -0.288535386F, 1.7784034F, 1.18373108F, 1.71307576F});
  expect_image(image, {4, 3}, modes("cubic", "align_corners"),
               {1.0F, 0.8125F, 3.0F, -3.72222209F, 4.79224586F, -0.129629076F, -3.93518496F, 5.0850687F, -0.342593163F,
                0.5F, 1.5F, 2.5F});
  const Attributes antialias = {{"antialias", true}, {"exclude_outside", true}, {"cubic_coeff", -0.5F}};
  expect_image(image, {2, 3}, modes("linear", "half_pixel", antialias),
               {-0.462500006F, 2.31250024F, 2.02499986F, 0.818750083F, 2.625F, 0.493750274F});
  expect_image(image, {2, 3}, modes("cubic", "half_pixel", antialias),
               {-0.832226694F, 2.50528932F, 2.09649706F, 0.864865303F, 2.89898562F, 0.0503532887F});
}

TEST(Resize, PyTorchsNumbersInOneAndThreeDimensions) {
  const Attributes nearest = modes("nearest", "asymmetric", {{"nearest_mode", std::string("floor")}});
  expect_image({1, 1, 12}, {5}, modes("linear", "half_pixel"),
               {-1.10000014F, 2.19999886F, 4.5F, 0.350000858F, -1.34999895F});
  expect_image({1, 1, 12}, {7}, nearest, {1, -2, 3, 7, 2, 0.5F, -3});
  expect_image({1, 1, 2, 3, 2}, {3, 2, 3}, modes("linear", "half_pixel"),
               {1.75F, 0.5F, -0.75F, -2.75F, 1.625F, 6.0F, 1.6875F, 0.84375F, 0.0F, -2.4375F, 1.125F, 4.6875F, 1.625F,
                1.1875F, 0.75F, -2.125F, 0.625F, 3.375F});
  expect_image({1, 1, 2, 3, 2}, {3, 2, 3}, nearest, {1, 1, -2, 4, 4, 3, 1, 1, -2, 4, 4, 3, 2, 2, -1, 0.5F, 0.5F, 6});
}

TEST(Resize, IntegersAndSameSizes) {
  const Attributes attributes = modes("nearest", "asymmetric", {{"sizes", IntList{3}}});
  const Ran ran = run("Resize", attributes, {integers({1, 2, 3}, {1, 2, 3, 4, 5, 6})});
  ASSERT_EQ(ran.results.size(), 1U);
  EXPECT_EQ(ran.results[0].dtype(), DType::kI64);
  EXPECT_EQ(ran.values(), (Floats{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(
      run("Resize", modes("linear", "asymmetric", {{"sizes", IntList{3}}}), {integers({1, 1, 3}, {1, 2, 3})}).error,
      "dtype-mismatch");
}

TEST(Resize, Refusals) {
  const Operand image = floats({1, 1, 3, 4}, kImage);
  const auto error = [&image](const Attributes& attributes) { return run("Resize", attributes, {image}).error; };
  EXPECT_EQ(error({{"sizes", IntList{2}}}), "unsupported-form");
  EXPECT_EQ(error({{"sizes", IntList{2, -1}}}), "unsupported-form");
  EXPECT_EQ(error({{"sizes", IntList{2, 2}}, {"scales", Floats{0.5F}}}), "unsupported-form");
  EXPECT_EQ(error({{"sizes", IntList{2, 2}}, {"scales", Floats{0.5F, 0}}}), "unsupported-form");
  EXPECT_EQ(error(modes("area", "half_pixel", {{"sizes", IntList{2, 2}}})), "unsupported-form");
  EXPECT_EQ(error(modes("linear", "tf_crop_and_resize", {{"sizes", IntList{2, 2}}})), "unsupported-form");
  EXPECT_EQ(error({{"sizes", IntList{2, 2}}, {"nearest_mode", std::string("up")}}), "unsupported-form");
  EXPECT_EQ(error({{"sizes", IntList{2, 2}}, {"antialias", true}}), "unsupported-form");
  EXPECT_EQ(error({{"sizes", IntList{0, 2}}}), "");
  EXPECT_EQ(run("Resize", {{"sizes", IntList{2}}}, {floats({1, 2, 0}, {})}).error, "shape-mismatch");
  EXPECT_EQ(run("Resize", {{"sizes", IntList{2}}}, {floats({0, 2, 1}, {})}).error, "");
  EXPECT_EQ(run("Resize", {{"sizes", IntList{}}}, {floats({2, 2}, {1, 2, 3, 4})}).error, "shape-mismatch");
}

}  // namespace
}  // namespace htpipe::ops::testing
