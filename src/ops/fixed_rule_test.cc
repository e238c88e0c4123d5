// Where the chip computes something else than the operator means, the integer engine refuses instead of following it.
#include <gtest/gtest.h>

#include <string>

#include "exec/program.h"
#include "ir/text.h"
#include "ops/registry.h"

namespace htpipe {
namespace {

/// The error of preparing a graph for v75, as "code message"; "none" when there is none.
std::string refusal(const std::string& text) {
  register_all_ops();
  const auto graph = parse_graph(text);
  if (!graph) return graph.error().summary();
  const auto program = Program::make(*graph, 75);
  return program ? "none" : std::string(word(program.error().code)) + ": " + program.error().message;
}

std::string pool(const std::string& attributes) {
  return "graph @g(%x: u8<scale 0.1, zero 9>[1,10,10,2]) -> (%y) { %y = PoolAvg2d(%x) {data_layout=\"nhwc\", " +
         attributes + "} : u8<scale 0.1, zero 9>[1,5,5,2] }";
}

TEST(FixedRule, MeansThatTheChipComputesOtherwise) {
  EXPECT_EQ(refusal(pool("filter_size=[2,2], stride=[2,2]")), "none");
  EXPECT_EQ(refusal(pool("filter_size=[3,3], stride=[2,2], rounding_mode=\"ceil\"")),
            "no-fixed-rule: the chip's mean over a window that reaches over the edge is another one");
  EXPECT_EQ(refusal(pool("filter_size=[3,3], stride=[2,2], pad_amount=[1,0,1,0], rounding_mode=\"ceil\"")), "none");
  const std::string counted =
      "graph @g(%x: u8<scale 0.1, zero 9>[1,8,8,2]) -> (%y) { %y = PoolAvg2d(%x) {data_layout=\"nhwc\", "
      "filter_size=[2,2], "
      "stride=[2,2], pad_amount=[1,1,1,1], count_pad_for_edges=true} : u8<scale 0.1, zero 9>[1,5,5,2] }";
  EXPECT_EQ(refusal(counted), "no-fixed-rule: the chip answers zeros for a tiled mean that counts its padding");
  const std::string left_over =
      "graph @g(%x: u8<scale 0.1, zero 9>[1,18,18,2]) -> (%y) { %y = PoolAvg2d(%x) {data_layout=\"nhwc\", "
      "filter_size=[4,4], "
      "stride=[4,4]} : u8<scale 0.1, zero 9>[1,4,4,2] }";
  EXPECT_EQ(refusal(left_over),
            "no-fixed-rule: a tiled mean with rows or columns left over crashes the vendor's runtime");
}

TEST(FixedRule, SumsOfEightBitsAlongRowsAndColumns) {
  const auto graph = [](const std::string& type, int axis) {
    return "graph @g(%x: " + type +
           "<scale 0.1, zero 9>[2,9,8,4]) -> (%y) { %y = CumulativeSum(%x) {axis=" + std::to_string(axis) +
           "} : " + type + "<scale 0.2, zero 9>[2,9,8,4] }";
  };
  EXPECT_EQ(refusal(graph("u8", 1)), "no-fixed-rule: the chip sums 8 bits wrongly along the height and the width");
  EXPECT_EQ(refusal(graph("u8", 2)), refusal(graph("u8", 1)));
  EXPECT_EQ(refusal(graph("u8", 0)), "none");
  EXPECT_EQ(refusal(graph("u8", 3)), "none");
  EXPECT_EQ(refusal(graph("u16", 1)), "none");
}

TEST(FixedRule, SixteenBitHardSigmoidNeedsItsOwnEncoding) {
  const auto graph = [](const std::string& result) {
    return "graph @g(%x: u16<scale 0.0001, zero 30000>[8]) -> (%y) { %y = ElementWiseNeuron(%x) "
           "{operation=\"hard_sigmoid\"} : u16<" +
           result + ">[8] }";
  };
  EXPECT_EQ(refusal(graph("scale 0.0000152590219, zero 0")), "none");
  EXPECT_NE(refusal(graph("scale 0.00002, zero 0")), "none");
  EXPECT_NE(refusal(graph("scale 0.0000152590219, zero 5")), "none");
}

TEST(FixedRule, FromSixteenBitsToLargerStepsOnly) {
  const auto graph = [](const std::string& scale) {
    return "graph @g(%x: u16<scale 0.001, zero 9>[8]) -> (%y) { %y = Convert(%x) {to=\"u8\"} : u8<scale " + scale +
           ", zero 9>[8] }";
  };
  EXPECT_EQ(refusal(graph("0.0011")), "none");
  EXPECT_NE(refusal(graph("0.001")), "none");
}

TEST(FixedRule, LogOfSixteenBitsInSmallStepsIsZero) {
  const auto graph = [](const std::string& scale) {
    return "graph @g(%x: u16<scale 0.001, zero 0>[8]) -> (%y) { %y = ElementWiseUnary(%x) {operation=\"log\"} : "
           "u16<scale " +
           scale + ", zero 9>[8] }";
  };
  EXPECT_EQ(refusal(graph("0.0001")), "none");
  EXPECT_NE(refusal(graph("0.00006")), "none");
}

TEST(FixedRule, FusedActivationNeedsAnEncodingThatClamps) {
  const auto graph = [](const std::string& activation, const std::string& result) {
    return "graph @g(%x: u8<scale 0.1, zero 9>[1,8,8,2]) -> (%y) { %w = const i8<axis 3, scales [0.1,0.1], zeros "
           "[0,0]>[1,1,2,2] "
           "[1,2,3,4]\n %y = Conv2d(%x, %w, _) {data_layout=\"nhwc\", activation=\"" +
           activation + "\"} : u8<" + result + ">[1,8,8,2] }";
  };
  EXPECT_EQ(refusal(graph("none", "scale 0.1, zero 9")), "none");
  EXPECT_EQ(refusal(graph("relu", "scale 0.1, zero 0")), "none");
  EXPECT_NE(refusal(graph("relu", "scale 0.1, zero 9")), "none");
  EXPECT_EQ(refusal(graph("relu6", "scale 0.02, zero 0")), "none");
  EXPECT_NE(refusal(graph("relu6", "scale 0.1, zero 0")), "none");
}

TEST(FixedRule, ChannelFirstDataHasNone) {
  EXPECT_EQ(refusal("graph @g(%x: u8<scale 0.1, zero 9>[1,2,8,8]) -> (%y) { %y = PoolMax2d(%x) {filter_size=[2,2]} : "
                    "u8<scale 0.1, zero 9>[1,2,7,7] }"),
            "no-fixed-rule: only channel-last data has an integer rule");
}

}  // namespace
}  // namespace htpipe
