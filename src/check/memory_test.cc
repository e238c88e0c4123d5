// Estimates of memory by sums that can be made by hand. How far they are from the compiler's: bench/check_truth.py.
#include "check/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/registry.h"

namespace htpipe::check {
namespace {

using testing::ElementsAre;

Graph parsed(const std::string& text) {
  register_all_ops();
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().summary();
  return graph ? std::move(*graph) : Graph("none");
}

MemoryReport estimated(const Graph& graph, int vtcm_mb, std::uint64_t largest_context = kLargestContext) {
  Target target;
  target.vtcm_mb = vtcm_mb;
  target.htp_version = 75;
  return estimate_memory({graph, graph, graph, target, Precision::kInt8}, largest_context);
}

// a and b live until the sum; c is 1 MiB of f32 beside them.
const char* const kDiamond = R"(graph @diamond(%x: f32[1,256,64,16]) -> (%y) {
  %a = ElementWiseNeuron(%x) {operation="relu"} @ "one"
  %b = ElementWiseNeuron(%a) {operation="sigmoid"} @ "two"
  %c = ElementWiseNeuron(%b) {operation="tanh"} @ "three"
  %y = ElementWiseBinary(%a, %c) {operation="add"} @ "four"
})";
constexpr std::uint64_t kMegabyte = 1048576;

TEST(Memory, PeakIsWhereMostIsAlive) {
  const Graph graph = parsed(kDiamond);
  const MemoryReport memory = estimated(graph, 8);
  EXPECT_EQ(memory.peak_activation_bytes, 3 * kMegabyte);  // a, b and c, or a, c and y
  EXPECT_TRUE(memory.peak.node == "c" || memory.peak.node == "y") << memory.peak.node;
  EXPECT_EQ(memory.weight_bytes, 0U);
  EXPECT_EQ(memory.spill_bytes, 0U);
  EXPECT_TRUE(memory.pressure.empty());
  EXPECT_TRUE(memory.growth.empty());
  EXPECT_TRUE(memory.pieces.empty());
}

TEST(Memory, WhatExceedsTheVtcmIsNamed) {
  const Graph graph = parsed(kDiamond);
  const MemoryReport memory = estimated(graph, 2);
  ASSERT_EQ(memory.pressure.size(), 1U);
  EXPECT_EQ(memory.pressure[0].place.node, "y");
  EXPECT_EQ(memory.pressure[0].place.layer, "four");
  EXPECT_EQ(memory.pressure[0].read, 2 * kMegabyte);
  EXPECT_EQ(memory.pressure[0].share, 1.5);
  EXPECT_EQ(memory.spill_bytes, 2 * kMegabyte);  // 16 channels fill half of a tile of 32: 6 MiB alive, 4 fit in turns
}

TEST(Memory, GrowthIsNamedWhereItStarts) {
  const Graph graph = parsed(R"(graph @grow(%x: f32[1,8,8,4]) -> (%y) {
    %w = const f32[1,1,4,64] random 1
    %c = Conv2d(%x, %w, _) {data_layout="nhwc"} @ "wide"
    %y = ElementWiseNeuron(%c) {operation="relu"} @ "act"
  })");
  const MemoryReport memory = estimated(graph, 8);
  ASSERT_EQ(memory.growth.size(), 1U);
  EXPECT_EQ(memory.growth[0].place.layer, "wide");
  EXPECT_EQ(memory.growth[0].what, "size");
  EXPECT_EQ(memory.growth[0].factor, 16);
  EXPECT_EQ(memory.weight_bytes, 4U * 64U * 4U);
}

TEST(Memory, RangesOfACalibratedGraphGrowToo) {
  const Graph graph = parsed(R"(graph @range(%x: u8<scale 0.1, zero 0>[1,8]) -> (%y) {
    %y = ElementWiseBinary(%x, %x) {operation="multiply"} : u8<scale 2.5, zero 0>[1,8] @ "square"
  })");
  const MemoryReport memory = estimated(graph, 8);
  ASSERT_EQ(memory.growth.size(), 1U);
  EXPECT_EQ(memory.growth[0].what, "range");
  EXPECT_NEAR(memory.growth[0].factor, 25, 1e-5);
}

TEST(Memory, TooLargeAModelIsCutWhereLeastCrosses) {
  // Four layers of 64 KiB each; behind the second only 8 numbers cross, elsewhere 64.
  const Graph graph = parsed(R"(graph @deep(%x: f32[1,64]) -> (%y) {
    %w0 = const f32[256,64] random 1
    %w1 = const f32[32,256] random 2
    %w2 = const f32[256,32] random 3
    %w3 = const f32[64,256] random 4
    %a = FullyConnected(%x, %w0)
    %b = FullyConnected(%a, %w1)
    %c = FullyConnected(%b, %w2)
    %y = FullyConnected(%c, %w3)
  })");
  const MemoryReport whole = estimated(graph, 8);
  EXPECT_TRUE(whole.pieces.empty());
  const MemoryReport memory = estimated(graph, 8, 180000);
  ASSERT_EQ(memory.pieces.size(), 2U);
  EXPECT_EQ(memory.pieces[0].first.node, "a");
  EXPECT_EQ(memory.pieces[0].last.node, "b");
  EXPECT_THAT(memory.pieces[0].cut, ElementsAre("b"));
  EXPECT_EQ(memory.pieces[0].cut_bytes, 32U * 4U);
  EXPECT_EQ(memory.pieces[1].last.node, "y");
  EXPECT_TRUE(memory.pieces[1].cut.empty());
  for (const Piece& piece : memory.pieces) EXPECT_LE(piece.context_bytes, 180000U);
}

}  // namespace
}  // namespace htpipe::check
