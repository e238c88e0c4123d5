// GridSample, RoiAlign, Lrn, RotaryEmbedding and Batchnorm against PyTorch 2.13, ONNX Runtime 1.32 and plain loops.
#include <gtest/gtest.h>

#include <limits>

#include "ops/one_op_test.h"

namespace htpipe::ops::testing {
namespace {

/// A spatial operator in both layouts; `want` is channel-first.
void expect_both_layouts(const char* op, Attributes attributes, const std::vector<Operand>& operands,
                         const Floats& want, double tolerance = 1e-6) {
  const Ran first = run(op, attributes, operands);
  ASSERT_EQ(first.error, "");
  expect_near(first.values(), want, tolerance);
  const IntList order = to_last(operands[0].tensor.shape().size());
  std::vector<Operand> moved = operands;
  moved[0] = permuted(operands[0], order);
  attributes.set("data_layout", std::string("nhwc"));
  const Ran last = run(op, attributes, moved);
  ASSERT_EQ(last.error, "");
  EXPECT_EQ(last.shape(), permute(first.shape(), order));
  EXPECT_EQ(last.values(), to_floats(transpose(first.results[0], order)));
}

Operand scaled(Operand operand, float factor) {
  Floats values = to_floats(operand.tensor);
  for (float& value : values) value *= factor;
  return floats(operand.tensor.shape(), values);
}

struct GridCase {
  const char* mode;
  const char* padding;
  bool align_corners;
  Floats want;
};

void expect_grid(const Operand& image, const Operand& grid, const std::vector<GridCase>& cases) {
  for (const GridCase& each : cases) {
    SCOPED_TRACE(std::string(each.mode) + " " + each.padding);
    expect_both_layouts("GridSample",
                        {{"mode", std::string(each.mode)},
                         {"padding_mode", std::string(each.padding)},
                         {"align_corners", each.align_corners}},
                        {image, grid}, each.want, 5e-6);  // PyTorch weighs in float32
  }
}

TEST(GridSample, PyTorchsNumbers) {
  // F.grid_sample(noise((1, 2, 3, 4), 1), noise((1, 2, 3, 2), 2) * 0.7, mode, padding_mode, align_corners)
  expect_grid(random({1, 2, 3, 4}, 1), scaled(random({1, 2, 3, 2}, 2), 0.7F),
              {{"bilinear",
                "zeros",
                false,
                {0.0573211275F, 0.335108101F, -0.216449514F, -0.192375943F, -0.902837396F, 0.274683982F, 0.0056041698F,
                 0.108356126F, -0.204859644F, -0.182075113F, -0.854494631F, -0.0867050067F}},
               {"bilinear",
                "zeros",
                true,
                {0.881398261F, 0.174020573F, -1.44404089F, -1.39101541F, -1.06699193F, 0.093794018F, 0.0808678791F,
                 0.0862376988F, -1.38668776F, -1.247563F, -1.20402074F, -0.0825801194F}},
               {"bilinear",
                "border",
                false,
                {1.58473015F, 0.335108101F, -1.83106613F, -1.83106613F, -1.83106613F, 0.274683982F, 0.154935837F,
                 0.108356126F, -1.73302102F, -1.73302102F, -1.73302102F, -0.0867050067F}},
               {"bilinear",
                "border",
                true,
                {1.3173486F, 0.174020573F, -1.76741493F, -1.83438003F, -1.06699193F, 0.093794018F, 0.120866112F,
                 0.0862376988F, -1.6972183F, -1.64520442F, -1.20402074F, -0.0825801194F}},
               {"bilinear",
                "reflection",
                false,
                {1.58473015F, 0.335108101F, -1.83106613F, -1.83106613F, -1.83106613F, 0.274683982F, 0.154935837F,
                 0.108356126F, -1.73302102F, -1.73302102F, -1.73302102F, -0.0867050067F}},
               {"bilinear",
                "reflection",
                true,
                {0.863092482F, 0.174020573F, -1.7815547F, -1.00124681F, -1.06699193F, 0.093794018F, 0.00608704891F,
                 0.0862376988F, -1.43805146F, -1.18998575F, -1.20402074F, -0.0825801194F}},
               {"nearest",
                "zeros",
                false,
                {0.0F, 0.379948616F, 0.0F, 0.0F, -1.83106613F, -0.0916516781F, 0.0F, 0.0739734173F, 0.0F, 0.0F,
                 -1.73302102F, -0.251010895F}},
               {"nearest",
                "zeros",
                true,
                {1.58473015F, 0.379948616F, -1.83106613F, -1.83106613F, -1.83106613F, 0.379948616F, 0.154935837F,
                 0.0739734173F, -1.73302102F, -1.73302102F, -1.73302102F, 0.0739734173F}},
               {"nearest",
                "border",
                false,
                {1.58473015F, 0.379948616F, -1.83106613F, -1.83106613F, -1.83106613F, -0.0916516781F, 0.154935837F,
                 0.0739734173F, -1.73302102F, -1.73302102F, -1.73302102F, -0.251010895F}},
               {"nearest",
                "border",
                true,
                {1.58473015F, 0.379948616F, -1.83106613F, -1.83106613F, -1.83106613F, 0.379948616F, 0.154935837F,
                 0.0739734173F, -1.73302102F, -1.73302102F, -1.73302102F, 0.0739734173F}},
               {"nearest",
                "reflection",
                false,
                {1.58473015F, 0.379948616F, -1.83106613F, -1.83106613F, -1.83106613F, -0.0916516781F, 0.154935837F,
                 0.0739734173F, -1.73302102F, -1.73302102F, -1.73302102F, -0.251010895F}},
               {"nearest",
                "reflection",
                true,
                {1.58473015F, 0.379948616F, -1.83106613F, -1.83106613F, -1.83106613F, 0.379948616F, 0.154935837F,
                 0.0739734173F, -1.73302102F, -1.73302102F, -1.73302102F, 0.0739734173F}},
               {"bicubic",
                "zeros",
                false,
                {0.067700088F, 0.595249474F, -0.266982645F, -0.21305199F, -1.17300582F, 0.324779719F, 0.00761521887F,
                 0.225085348F, -0.25051868F, -0.211411402F, -1.16738117F, -0.0355801359F}},
               {"bicubic",
                "zeros",
                true,
                {1.16428924F, 0.391844481F, -1.51168633F, -1.87527347F, -1.35611391F, 0.0121050561F, 0.139813229F,
                 0.210381433F, -1.58539462F, -1.56298244F, -1.53515339F, -0.0618979149F}},
               {"bicubic",
                "border",
                false,
                {1.96901298F, 0.566993892F, -2.17852688F, -1.89648807F, -2.17735362F, 0.215582103F, 0.2044404F,
                 0.215510696F, -1.97473586F, -1.929932F, -2.09886813F, -0.0370776802F}},
               {"bicubic",
                "border",
                true,
                {1.52898598F, 0.378914267F, -1.77546513F, -2.20472908F, -1.10624206F, 0.00650274847F, 0.174014539F,
                 0.20509474F, -1.83632684F, -1.86311507F, -1.29219139F, -0.0482211262F}},
               {"bicubic",
                "reflection",
                false,
                {2.29921436F, 0.566993892F, -2.51385164F, -2.2323699F, -2.27250051F, 0.215582103F, 0.25590384F,
                 0.215510696F, -2.3328836F, -2.24453378F, -2.26247287F, -0.0370776802F}},
               {"bicubic",
                "reflection",
                true,
                {1.16645539F, 0.390110075F, -1.90297484F, -1.38255596F, -1.44693816F, 0.000230293095F, 0.0931261927F,
                 0.209469974F, -1.64310098F, -1.52912343F, -1.54831207F, -0.0624257922F}}});
}

TEST(GridSample, PyTorchsNumbersInThreeDimensions) {
  // F.grid_sample(noise((1, 1, 2, 3, 2), 3), noise((1, 1, 2, 2, 3), 4) * 0.7, mode, padding_mode, align_corners=False)
  expect_grid(random({1, 1, 2, 3, 2}, 3), scaled(random({1, 1, 2, 2, 3}, 4), 0.7F),
              {{"bilinear", "zeros", false, {-0.234967709F, -0.202949509F, 0.316002339F, 0.849571884F}},
               {"bilinear", "reflection", false, {-0.585031748F, -1.01710343F, 0.574589133F, 0.849571884F}},
               {"nearest", "zeros", false, {0.0F, 0.0F, 0.559403896F, 0.559403896F}},
               {"nearest", "reflection", false, {-0.937108755F, -0.412629128F, 0.559403896F, 0.559403896F}}});
}

TEST(GridSample, AnyPositionStaysInsideTheImage) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Operand grid = floats({1, 1, 6, 2}, {inf, 0, nan, nan, -inf, inf, 3e38F, -3e38F, 1e9F, 1e9F, -1, 1});
  for (const char* mode : {"bilinear", "nearest", "bicubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const bool corners : {false, true}) {
        const Ran ran =
            run("GridSample",
                {{"mode", std::string(mode)}, {"padding_mode", std::string(padding)}, {"align_corners", corners}},
                {random({1, 1, 1, 3}, 1), grid});
        EXPECT_EQ(ran.error, "");
      }
    }
  }
}

TEST(GridSample, Refusals) {
  const Operand image = random({1, 2, 3, 4}, 1);
  EXPECT_EQ(run("GridSample", {}, {image, random({1, 2, 3, 3}, 2)}).error, "shape-mismatch");
  EXPECT_EQ(run("GridSample", {}, {image, random({2, 2, 3, 2}, 2)}).error, "shape-mismatch");
  EXPECT_EQ(run("GridSample", {}, {random({1, 2, 3}, 1), random({1, 2, 1}, 2)}).error, "shape-mismatch");
  EXPECT_EQ(run("GridSample", {}, {floats({1, 2, 0, 4}, {}), random({1, 2, 3, 2}, 2)}).error, "shape-mismatch");
  EXPECT_EQ(run("GridSample", {}, {image, floats({1, 0, 3, 2}, {})}).error, "");
  EXPECT_EQ(run("GridSample", {{"mode", std::string("cubic")}}, {image, random({1, 2, 3, 2}, 2)}).error,
            "unsupported-form");
  EXPECT_EQ(
      run("GridSample", {{"mode", std::string("bicubic")}}, {random({1, 1, 2, 3, 2}, 3), random({1, 1, 2, 2, 3}, 4)})
          .error,
      "unsupported-form");
}

TEST(RoiAlign, OnnxRuntimesNumbers) {
  // One RoiAlign node (opset 16) with a 2x2 output on x = noise((2, 2, 5, 6), 1); onnxruntime and the reference
  // evaluator agree on all four.
  const std::vector<Operand> operands = {
      random({2, 2, 5, 6}, 1), floats({4, 4}, {0.5F, 1, 4.5F, 3.5F, -1, 0, 2, 8, 3, 3, 3.2F, 3.1F, 1, 1, 9, 2}),
      integers({4}, {0, 1, 0, 1})};
  Attributes attributes = {{"output_size", IntList{2, 2}}, {"sampling_ratio", std::int64_t{2}}};
  expect_both_layouts(
      "RoiAlign", attributes, operands,
      {0.651631534F, 0.403748333F,   -0.207043052F, 0.371925801F,  -0.431311846F, 0.752471566F,  -0.308915436F,
       0.497266054F, 0.0715439916F,  -0.184007227F, 0.01118505F,   0.178415239F,  -0.29226774F,  -0.582995355F,
       0.0766204F,   -0.0640716553F, 0.484732509F,  0.455788136F,  0.426514953F,  0.396344244F,  0.318068027F,
       0.474367678F, 0.395749748F,   0.545796692F,  -0.849878669F, 0.76839757F,   -0.832149744F, 0.824530602F,
       -0.22262916F, 0.826656222F,   -0.477918744F, 0.521842837F},
      3e-6);
  attributes.set("mode", std::string("max"));
  expect_both_layouts(
      "RoiAlign", attributes, operands,
      {0.643796623F, 0.643796623F, 0.555183172F, 0.555183172F, 0.153990388F, 0.78618741F,  0.234526664F, 0.585752726F,
       0.413473606F, 0.258421004F, 0.0447402F,   0.398949802F, 0.515189171F, 0.321993232F, 0.3064816F,   0.246323735F,
       0.28695932F,  0.336865216F, 0.25752762F,  0.302314967F, 0.461148947F, 0.541348636F, 0.5040465F,   0.591706634F,
       0.056090802F, 1.39366388F,  0.120295957F, 1.39366388F,  0.270495474F, 1.64789701F,  0.295748472F, 1.64789701F},
      3e-6);
  attributes.set("mode", std::string("avg"));
  attributes.set("sampling_ratio", std::int64_t{0});
  attributes.set("spatial_scale", 0.75F);
  expect_both_layouts(
      "RoiAlign", attributes, operands,
      {0.519098282F,   0.752094388F,  -0.126069665F,  1.06800866F,   -0.650583327F, 0.274018556F,  0.0313733444F,
       -0.51665616F,   0.407256693F,  -0.0234087706F, -0.18664591F,  0.0812884495F, -0.261023045F, -0.517752469F,
       -0.314036518F,  -0.384413272F, 1.11632872F,    1.17302537F,   1.09512734F,   1.15400839F,   -1.01600778F,
       -1.1419034F,    -1.05344498F,  -1.18590879F,   -0.497059017F, 0.630456746F,  -0.662555516F, 0.434385747F,
       -0.0409326665F, 0.94832325F,   -0.330977827F,  0.912102878F},
      3e-6);
  attributes.set("spatial_scale", 1.0F);
  attributes.set("aligned", false);
  expect_both_layouts(
      "RoiAlign", attributes, operands,
      {1.01235938F,   0.356104881F,  -0.0144993812F, -0.234031588F, -0.486414939F, 1.03893614F,    -0.518433988F,
       1.23784542F,   0.0280552506F, -0.171716213F,  0.017610088F,  0.144296408F,  -0.678943992F,  -0.251860559F,
       0.063154608F,  0.0719709396F, -0.171729818F,  -0.591363549F, 0.157978922F,  -0.758629322F,  1.30754328F,
       1.08935559F,   0.832491279F,  -0.0339899659F, -0.544901192F, 0.412265301F,  -0.0739907026F, 0.440416545F,
       -0.248533547F, 0.260921419F,  -0.426428884F,  -0.158891171F},
      3e-6);
}

TEST(RoiAlign, ImagesThatAreNotThereAndWildBoxes) {
  const Attributes attributes = {{"output_size", IntList{2, 2}}};
  const Floats boxes = {0, 0, 4, 4, 0, 0, 4, 4, -1e8F, -1e8F, 1e8F, 1e8F, 0, 0, 3e38F, 3e38F};
  const Ran ran =
      run("RoiAlign", attributes, {random({2, 1, 5, 6}, 1), floats({4, 4}, boxes), integers({4}, {-1, 2, 0, 1})});
  ASSERT_EQ(ran.error, "");
  const Floats values = ran.values();
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(values[i], 0.0F);
  for (const float value : values) EXPECT_TRUE(std::isfinite(value));
  EXPECT_EQ(run("RoiAlign", attributes, {random({2, 1, 5, 6}, 1), floats({0, 4}, {}), integers({0}, {})}).error, "");
}

TEST(RoiAlign, Refusals) {
  const Operand image = random({1, 1, 5, 6}, 1);
  const Operand boxes = random({2, 4}, 2);
  const Operand images = integers({2}, {0, 0});
  const auto error = [](const Attributes& attributes, const std::vector<Operand>& operands) {
    return run("RoiAlign", attributes, operands).error;
  };
  EXPECT_EQ(error({{"output_size", IntList{2}}}, {image, boxes, images}), "unsupported-form");
  EXPECT_EQ(error({{"output_size", IntList{0, 2}}}, {image, boxes, images}), "unsupported-form");
  EXPECT_EQ(error({{"output_size", IntList{2, 2}}, {"mode", std::string("min")}}, {image, boxes, images}),
            "unsupported-form");
  EXPECT_EQ(error({{"output_size", IntList{2, 2}}}, {image, random({2, 5}, 1), images}), "shape-mismatch");
  EXPECT_EQ(error({{"output_size", IntList{2, 2}}}, {image, boxes, integers({3}, {0, 0, 0})}), "shape-mismatch");
  EXPECT_EQ(error({{"output_size", IntList{2, 2}}}, {image, boxes, random({2}, 1)}), "dtype-mismatch");
  EXPECT_EQ(error({{"output_size", IntList{2, 2}}}, {random({1, 5, 6}, 1), boxes, images}), "shape-mismatch");
}

TEST(Lrn, PyTorchsNumbers) {
  // z = torch.linspace(-2, 3, 10).reshape(1, 5, 2)
  const Operand z = floats({1, 5, 2}, {-2.0F, -1.44444442F, -0.888888836F, -0.333333254F, 0.222222328F, 0.777777672F,
                                       1.33333325F, 1.88888884F, 2.44444442F, 3.0F});
  // F.local_response_norm(z, 3, alpha=.9, beta=.75, k=1.5)
  expect_both_layouts("Lrn", {{"radius", std::int64_t{1}}, {"alpha", 0.3F}, {"beta", 0.75F}, {"bias", 1.5F}}, {z},
                      {-0.891451895F, -0.810909212F, -0.394708544F, -0.176142305F, 0.119562961F, 0.360757142F,
                       0.485990167F, 0.529417574F, 0.893568337F, 0.862462819F});
  // F.local_response_norm(z, 4, alpha=.8, beta=.6, k=2.)
  expect_both_layouts(
      "Lrn",
      {{"radius", std::int64_t{2}}, {"radius_after", std::int64_t{1}}, {"alpha", 0.2F}, {"beta", 0.6F}, {"bias", 2.0F}},
      {z},
      {-1.04334736F, -0.84590131F, -0.462783426F, -0.189620122F, 0.108101986F, 0.381770521F, 0.606340766F, 0.750506341F,
       1.1409694F, 1.19540668F});
  EXPECT_EQ(run("Lrn", {{"radius", std::int64_t{-1}}}, {z}).error, "unsupported-form");
  EXPECT_EQ(run("Lrn", {{"radius", std::int64_t{1}}}, {floats({2}, {1, 2})}).error, "shape-mismatch");
  EXPECT_EQ(run("Lrn", {{"radius", std::numeric_limits<std::int64_t>::max()}}, {z}).error, "");
}

TEST(Batchnorm, AnyRankInBothLayouts) {
  for (const Shape& shape : {Shape{3, 4}, Shape{3, 4, 5}, Shape{2, 4, 3, 5}, Shape{2, 4, 3, 1, 5}}) {
    const Floats in = noise(shape, 1);
    const Floats weight = noise({4}, 2);
    const Floats bias = noise({4}, 3);
    std::size_t pixels = 1;
    for (std::size_t axis = 2; axis < shape.size(); ++axis) pixels *= static_cast<std::size_t>(shape[axis]);
    Floats want(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) want[i] = in[i] * weight[i / pixels % 4] + bias[i / pixels % 4];
    expect_both_layouts("Batchnorm", {}, {floats(shape, in), floats({4}, weight), floats({4}, bias)}, want);
  }
  EXPECT_EQ(run("Batchnorm", {{"data_layout", std::string("nwc")}}, {random({2, 4}, 1), random({4}, 2), random({4}, 3)})
                .error,
            "unsupported-form");
}

TEST(RotaryEmbedding, PlainLoops) {
  const Shape shape = {2, 3, 4, 8};
  const Floats in = noise(shape, 1);
  for (const bool interleaved : {false, true}) {
    for (const std::int64_t dim : {0, 6}) {
      const std::size_t half = dim == 0 ? 4 : 3;
      for (const bool shared : {false, true}) {
        Shape angles = {2, 4, static_cast<std::int64_t>(half)};
        if (shared) angles.erase(angles.begin());
        const Floats cos = noise(angles, 2);
        const Floats sin = noise(angles, 3);
        Floats want = in;
        for (std::size_t row = 0; row < 24; ++row) {
          const std::size_t position = row % 4 + (shared ? 0 : row / 12 * 4);
          for (std::size_t i = 0; i < half; ++i) {
            const std::size_t a = row * 8 + (interleaved ? 2 * i : i);
            const std::size_t b = row * 8 + (interleaved ? 2 * i + 1 : i + half);
            const float c = cos[position * half + i];
            const float s = sin[position * half + i];
            want[a] = c * in[a] - s * in[b];
            want[b] = s * in[a] + c * in[b];
          }
        }
        expect_near(run("RotaryEmbedding", {{"interleaved", interleaved}, {"rotary_embedding_dim", dim}},
                        {floats(shape, in), floats(angles, cos), floats(angles, sin)})
                        .values(),
                    want);
      }
    }
  }
}

TEST(RotaryEmbedding, Refusals) {
  const Operand x = random({2, 3, 4, 8}, 1);
  const Operand angles = random({4, 4}, 2);
  EXPECT_EQ(run("RotaryEmbedding", {}, {x, angles, angles}).error, "");
  EXPECT_EQ(run("RotaryEmbedding", {}, {x, angles, random({4, 3}, 2)}).error, "shape-mismatch");
  EXPECT_EQ(run("RotaryEmbedding", {}, {x, random({3, 4, 4}, 2), random({3, 4, 4}, 2)}).error, "shape-mismatch");
  EXPECT_EQ(run("RotaryEmbedding", {{"rotary_embedding_dim", std::int64_t{10}}}, {x, angles, angles}).error,
            "unsupported-form");
  EXPECT_EQ(run("RotaryEmbedding", {{"rotary_embedding_dim", std::int64_t{3}}}, {x, angles, angles}).error,
            "unsupported-form");
  EXPECT_EQ(run("RotaryEmbedding", {}, {random({8}, 1), angles, angles}).error, "shape-mismatch");
}

}  // namespace
}  // namespace htpipe::ops::testing
