// What the table of rules says about single nodes. Whether the table is true: rules_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "ir/text.h"
#include "ops/registry.h"
#include "target/rules.h"

namespace htpipe {
namespace {

NodeVerdict judge_text(const std::string& text, const std::string& target, Precision precision) {
  register_all_ops();
  const auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().summary();
  if (!graph) return {};
  const auto targets = load_targets(std::filesystem::path(HTPIPE_SOURCE_DIR) / "targets");
  EXPECT_TRUE(targets) << targets.error().summary();
  const auto chip = find_target(target, targets ? *targets : std::vector<Target>());
  EXPECT_TRUE(chip) << chip.error().summary();
  if (!chip) return {};
  return judge(*graph, *chip, precision).front();
}

constexpr const char* kRelu =
    "graph @g(%x: f32[1,4,8,8]) -> (%y) {\n"
    "  %y = ElementWiseNeuron(%x) {operation=\"relu\"} : f32[1,4,8,8] @ \"block.relu\"\n}\n";

TEST(Judge, FloatValuesAreJudgedForTheTypeTheyGet) {
  EXPECT_EQ(judge_text(kRelu, "snapdragon-888", Precision::kInt8).support, Support::kNative);
  EXPECT_EQ(judge_text(kRelu, "snapdragon-8-gen-3", Precision::kFp16).support, Support::kNative);
  const NodeVerdict verdict = judge_text(kRelu, "snapdragon-888", Precision::kFp16);
  EXPECT_EQ(verdict.support, Support::kUnsupported);
  EXPECT_THAT(verdict.reason, testing::HasSubstr("no float16"));
  EXPECT_EQ(verdict.node, "y");
  EXPECT_EQ(verdict.op, "ElementWiseNeuron");
  EXPECT_EQ(verdict.layer, "block.relu");
}

TEST(Judge, RankSixIsRefused) {
  const NodeVerdict verdict = judge_text(
      "graph @g(%x: f32[1,1,1,2,2,2]) -> (%y) {\n"
      "  %y = ElementWiseNeuron(%x) {operation=\"relu\"} : f32[1,1,1,2,2,2]\n}\n",
      "snapdragon-8-gen-3", Precision::kInt8);
  EXPECT_EQ(verdict.support, Support::kUnsupported);
  EXPECT_THAT(verdict.reason, testing::HasSubstr("rank 6"));
}

TEST(Judge, SomeOperatorsTakeTheLastAxisOnly) {
  const auto softmax = [](const char* axis) {
    return judge_text("graph @g(%x: f32[2,3,4]) -> (%y) {\n  %y = Softmax(%x) {axis=" + std::string(axis) + "}\n}\n",
                      "snapdragon-8-gen-3", Precision::kInt8);
  };
  EXPECT_EQ(softmax("2").support, Support::kNative);
  EXPECT_EQ(softmax("1").support, Support::kUnsupported);
  EXPECT_THAT(softmax("1").reason, testing::HasSubstr("no Softmax with axis 1"));
}

TEST(Judge, WhatQnnCannotExpressIsUnsupported) {
  const auto resize = [](const char* more) {
    return judge_text(
        "graph @g(%x: f32[1,8,8,2]) -> (%y) {\n  %y = Resize(%x) {data_layout=\"nhwc\", sizes=[4,4], "
        "interpolation_mode=\"linear\"" +
            std::string(more) + "}\n}\n",
        "snapdragon-8-gen-3", Precision::kInt8);
  };
  EXPECT_EQ(resize("").support, Support::kNative);
  EXPECT_THAT(resize(", antialias=true").reason, testing::HasSubstr("no antialias"));
  EXPECT_THAT(resize(", scales=[0.55f,0.5f]").reason, testing::HasSubstr("scales 8 to 4 by 0.5"));
}

TEST(Judge, AFormIsJudgedInTheTypeThatFloatsGet) {
  const auto sum = [](const char* more, Precision precision, int axis = 2) {
    return judge_text(
        "graph @g(%x: f32[3,5,4]) -> (%y) {\n  %y = CumulativeSum(%x) {axis=" + std::to_string(axis) + more + "}\n}\n",
        "snapdragon-8-gen-3", precision);
  };
  EXPECT_EQ(sum("", Precision::kFp16).support, Support::kNative);
  EXPECT_THAT(sum(", exclusive=true", Precision::kFp16).reason, testing::HasSubstr("no exclusive"));
  EXPECT_THAT(sum(", reverse=true", Precision::kFp16).reason, testing::HasSubstr("no reverse"));
  EXPECT_EQ(sum(", exclusive=true, reverse=true", Precision::kInt8).support, Support::kNative);
  EXPECT_EQ(sum(", exclusive=true, reverse=true", Precision::kInt16, 1).support, Support::kNative);
  EXPECT_THAT(sum("", Precision::kInt8, 1).reason, testing::HasSubstr("8 bits wrongly"));

  const auto cubic = [](const char* sizes, const char* transformation, Precision precision) {
    return judge_text(
        "graph @g(%x: f32[1,6,8,4]) -> (%y) {\n  %y = Resize(%x) {data_layout=\"nhwc\", sizes=" + std::string(sizes) +
            ", interpolation_mode=\"cubic\", transformation_mode=\"" + transformation + "\"}\n}\n",
        "snapdragon-8-gen-3", precision);
  };
  EXPECT_THAT(cubic("[12,16]", "align_corners", Precision::kInt16).reason, testing::HasSubstr("garbage"));
  EXPECT_EQ(cubic("[12,16]", "align_corners", Precision::kInt8).support, Support::kNative);
  EXPECT_EQ(cubic("[12,15]", "align_corners", Precision::kInt16).support, Support::kNative);
  EXPECT_EQ(cubic("[12,16]", "half_pixel", Precision::kInt16).support, Support::kNative);
}

TEST(Judge, DilatedPoolingIsRefused) {
  const NodeVerdict verdict = judge_text(
      "graph @g(%x: f32[1,8,8,4]) -> (%y) {\n"
      "  %y = PoolMax2d(%x) {data_layout=\"nhwc\", filter_size=[2,2], dilation=[2,2]} : f32[1,6,6,4]\n}\n",
      "snapdragon-8-gen-3", Precision::kInt8);
  EXPECT_EQ(verdict.support, Support::kUnsupported);
  EXPECT_THAT(verdict.reason, testing::HasSubstr("dilation"));
}

TEST(Judge, ChannelFirstNeedsARewrite) {
  const NodeVerdict verdict = judge_text(
      "graph @g(%x: f32[1,4,8,8]) -> (%y) {\n"
      "  %y = PoolMax2d(%x) {filter_size=[2,2], stride=[2,2]} : f32[1,4,4,4]\n}\n",
      "snapdragon-8-gen-3", Precision::kInt8);
  EXPECT_EQ(verdict.support, Support::kRewritten);
  EXPECT_THAT(verdict.reason, testing::HasSubstr("channel-first"));
}

}  // namespace
}  // namespace htpipe
