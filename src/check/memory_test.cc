// Estimates of memory by sums that can be made by hand. How far they are from the compiler's: bench/check_truth.py.
#include "check/memory.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>

#include "check/context_size.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "quant/assume.h"

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
  // 16 channels fill half of a tile of 32: of 6 MiB of tiles 4 pass through in turns; a quarter is more than 3 - 2 MiB.
  EXPECT_EQ(memory.spill_bytes, 3 * kMegabyte / 2);
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

/// A chain of linear layers from widths[0] to widths[1] and so on, with 8-bit weights that nobody may read.
Graph chain(const std::vector<std::int64_t>& widths) {
  register_all_ops();
  Graph graph("chain");
  const Encoding encoding = Encoding::per_tensor(0.1F, 0, 8);
  Value* value = graph.add_input("x", {DType::kU8, {1, widths[0]}, encoding});
  for (std::size_t i = 1; i < widths.size(); ++i) {
    Value* weight =
        graph.add_constant(fmt::format("w{}", i), quant::unread({DType::kI8, {widths[i], widths[i - 1]}, encoding}));
    auto node = graph.add_node("FullyConnected", fmt::format("y{}", i), {}, {value, weight, nullptr});
    EXPECT_TRUE(node) << node.error().summary();
    value = (*node)->result();
    value->type = {DType::kU8, value->type.shape, encoding};
  }
  graph.set_outputs({value});
  return graph;
}

TEST(Memory, ThreeGigabytesOfWeightsAreCutAtTheNarrowestLayer) {
  const MemoryReport memory = estimated(chain({16384, 49152, 16384, 49152, 16384}), 8);
  ASSERT_EQ(memory.pieces.size(), 2U);
  EXPECT_EQ(memory.weight_bytes, 4U * 16384 * 49152);
  EXPECT_EQ(memory.pieces[0].last.node, "y2");
  EXPECT_EQ(memory.pieces[1].first.node, "y3");
  EXPECT_EQ(memory.pieces[0].cut_bytes, 16384U);
  for (const Piece& piece : memory.pieces) EXPECT_LE(piece.context_bytes, kLargestContext);
}

TEST(Memory, NoSplitHasFewerPiecesOrFewerBytes) {
  const std::vector<std::int64_t> widths = {64, 32, 96, 32, 128, 64, 32, 160, 32, 64};
  const Graph graph = chain(widths);
  Target target;
  target.htp_version = 75;
  std::vector<const Node*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  const auto largest_piece = [&](std::uint32_t cuts) {
    std::uint64_t most = 0;
    ContextSize size(target);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (i > 0 && ((cuts >> (i - 1)) & 1U) != 0) size = ContextSize(target);
      size.add(*nodes[i]);
      most = std::max(most, size.bytes());
    }
    return most;
  };
  for (const std::uint64_t limit : {28000U, 32000U, 40000U}) {
    std::pair<int, std::uint64_t> best{INT_MAX, 0};
    for (std::uint32_t cuts = 0; cuts < (1U << (nodes.size() - 1)); ++cuts) {
      if (largest_piece(cuts) > limit) continue;
      std::pair<int, std::uint64_t> found{1, 0};
      for (std::size_t i = 1; i < nodes.size(); ++i) {
        if (((cuts >> (i - 1)) & 1U) == 0) continue;
        ++found.first;
        found.second += static_cast<std::uint64_t>(widths[i]);
      }
      best = std::min(best, found);
    }
    ASSERT_GT(best.first, 1);
    ASSERT_LT(best.first, INT_MAX);
    std::pair<int, std::uint64_t> found{0, 0};
    for (const Piece& piece : estimated(graph, 8, limit).pieces) {
      ++found.first;
      found.second += piece.cut_bytes;
      EXPECT_LE(piece.context_bytes, limit);
    }
    EXPECT_EQ(found, best) << limit;
  }
}

TEST(Memory, AWeightThatTwoPiecesReadCountsInBoth) {
  const Graph graph = parsed(R"(graph @shared(%x: u8<scale 0.1, zero 0>[1,256]) -> (%c) {
    %w = const i8<scale 0.1, zero 0>[256,256] splat 0
    %a = FullyConnected(%x, %w) : u8<scale 0.1, zero 0>[1,256]
    %b = FullyConnected(%a, %w) : u8<scale 0.1, zero 0>[1,256]
    %c = FullyConnected(%b, %w) : u8<scale 0.1, zero 0>[1,256]
  })");
  const std::uint64_t whole = estimated(graph, 8).context_bytes;
  EXPECT_LT(whole, 2U * 65536);
  const MemoryReport memory = estimated(graph, 8, whole - 1);
  ASSERT_EQ(memory.pieces.size(), 2U);
  for (const Piece& piece : memory.pieces) EXPECT_GT(piece.context_bytes, 65536U);
}

TEST(Memory, WeightsOfFourBitsTakeHalfAByte) {
  EXPECT_EQ(stored_bytes({DType::kI8, {3, 5}, Encoding::per_tensor(1, 0, 4)}), 8U);
  EXPECT_EQ(stored_bytes({DType::kI8, {3, 5}, Encoding::per_tensor(1, 0, 8)}), 15U);
  EXPECT_EQ(stored_bytes({DType::kF16, {3, 5}, std::nullopt}), 30U);
}

TEST(Memory, ALiveSetThatExplodesIsNamedWhereMostIsAlive) {
  const Graph graph = parsed(R"(graph @wide(%x: f32[1,64,64,16]) -> (%f) {
    %a = ElementWiseNeuron(%x) {operation="relu"} @ "a" line "net.py:1"
    %b = ElementWiseNeuron(%a) {operation="relu"} @ "b" line "net.py:2"
    %c = Tile(%b) {multiples=[1,3,3,1]} @ "wide" line "net.py:3"
    %d = PoolMax2d(%c) {data_layout="nhwc", filter_size=[3,3], stride=[3,3]} @ "d" line "net.py:4"
    %e = ElementWiseNeuron(%d) {operation="relu"} @ "e" line "net.py:5"
    %f = ElementWiseNeuron(%e) {operation="relu"} @ "f" line "net.py:6"
  })");
  const MemoryReport memory = estimated(graph, 8);
  ASSERT_EQ(memory.growth.size(), 2U);
  EXPECT_EQ(memory.growth[0].what, "size");
  EXPECT_EQ(memory.growth[1].what, "live set");
  EXPECT_EQ(memory.growth[1].place.line, "net.py:3");
  EXPECT_EQ(memory.growth[1].factor, 5);  // ten tensors of the usual size, where usual is two
}

TEST(Tiling, EveryOperatorHasOne) {
  register_all_ops();
  for (const OpDef* op : registered_ops()) EXPECT_TRUE(has_tiling(op->name)) << op->name;
}

TEST(Tiling, TheLeastPieceIsWhatOneLineOrRowNeeds) {
  const Graph graph =
      parsed(R"(graph @pieces(%x: u8<scale 0.1, zero 0>[1,64,64,16], %s: f16[1,8,1024,1024]) -> (%z, %p, %n) {
    %w = const i8<scale 0.1, zero 0>[3,3,16,64] splat 0
    %y = Conv2d(%x, %w, _) {data_layout="nhwc", pad_amount=[1,1,1,1]} : u8<scale 0.1, zero 0>[1,64,64,64]
    %z = ElementWiseBinary(%y, %y) {operation="add"} : u8<scale 0.1, zero 0>[1,64,64,64]
    %p = Softmax(%s) {axis=3} : f16[1,8,1024,1024]
    %n = InstanceNorm(%s, _, _) {data_layout="nhwc"} : f16[1,8,1024,1024]
  })");
  std::map<std::string, std::uint64_t> least;
  for (const auto& node : graph.nodes()) least[node->name()] = least_piece(*node, 1'000'000'000);
  EXPECT_EQ(least["y"], 3U * 64 * 16 + 64 * 32 + 9 * 16 * 32);  // three lines, one line of 32 channels, their weights
  EXPECT_EQ(least["z"], 3U * 64);
  EXPECT_EQ(least["p"], 2U * 2048);
  EXPECT_EQ(least["n"], 1'000'000'000U);  // moments need everything
}

}  // namespace
}  // namespace htpipe::check
