// Orders of passes as text, and the search for the run of a pass that breaks a comparison.
#include "passes/bisect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ir/text.h"
#include "ops/registry.h"
#include "passes/order.h"

namespace htpipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(PassOrder, IsTextWithGroupsAndComments) {
  const auto order =
      parse_order("# a comment\n\n fold_batchnorm ,fuse_activation # two\r\n\tremove_dead_code", "o.txt");
  ASSERT_TRUE(order) << order.error().summary();
  EXPECT_THAT(*order, ElementsAre("fold_batchnorm fuse_activation", "remove_dead_code"));
}

TEST(PassOrder, OwnOrdersReadAsTheyAreWritten) {
  for (const auto& [text, steps] :
       {std::pair(default_order_text(), default_order()), std::pair(onnx_order_text(), onnx_order())}) {
    const auto order = parse_order(text, "");
    ASSERT_TRUE(order);
    EXPECT_EQ(*order, steps);
    EXPECT_GT(order->size(), 5U);
  }
}

TEST(PassOrder, AnUnknownNameIsAnErrorAtItsLine) {
  const auto order = parse_order("remove_dead_code\n\nfold_batchnrom\n", "o.txt");
  ASSERT_FALSE(order);
  EXPECT_EQ(order.error().code, Code::kUsage);
  EXPECT_EQ(order.error().place.file, "o.txt");
  EXPECT_EQ(order.error().place.line, 3);
  EXPECT_THAT(order.error().hint, HasSubstr("\"fold_batchnorm\""));
}

TEST(PassOrder, ATextWithoutStepsIsAnError) {
  for (const char* text : {"", "\n", "# nothing\n"}) {
    const auto order = parse_order(text, "o.txt");
    ASSERT_FALSE(order);
    EXPECT_EQ(order.error().code, Code::kUsage);
  }
}

class Bisect : public testing::Test {
 protected:
  void SetUp() override {
    register_all_ops();
    auto parsed = parse_graph(R"(graph @g(%x: f32[1,2]) -> (%relu) {
      %w = const f32[2,2] [1,-2,3,-4]
      %fc = FullyConnected(%x, %w) @ "head.fc"
      %s = const f32[2] [2,-2]
      %t = const f32[2] [0,1]
      %bn = Batchnorm(%fc, %s, %t) @ "head.bn"
      %relu = ElementWiseNeuron(%bn) {operation="relu"} @ "head.act"
    })");
    ASSERT_TRUE(parsed) << parsed.error().summary();
    graph_ = std::move(*parsed);
    // In an order that needs two rounds: runs 2 and 3 change the graph, the others nothing.
    options_.order = {"fuse_activation fold_batchnorm", "remove_dead_code"};
  }

  /// Holds while the graph has at least that many nodes.
  static GraphComparison at_least(std::size_t nodes) {
    return [nodes](const Graph& graph) -> Status {
      if (graph.nodes().size() >= nodes) return {};
      return fail(Code::kPassChangedResult, "too few");
    };
  }

  Graph graph_{"empty"};
  PassOptions options_;
};

TEST_F(Bisect, FindsTheRunOfThePass) {
  const std::string before = print(graph_);
  const auto first = bisect_passes(graph_, options_, at_least(3));
  ASSERT_TRUE(first) << first.error().summary();
  ASSERT_TRUE(first->culprit);
  EXPECT_EQ(first->culprit->name, "fold_batchnorm");
  EXPECT_EQ(first->culprit->number, 2);
  EXPECT_EQ(first->culprit->round, 1);
  EXPECT_EQ(first->culprit->notes.size(), 1U);
  EXPECT_EQ(first->error->message, "too few");
  EXPECT_TRUE(first->holds_without) << "without it nothing can be fused";
  EXPECT_EQ(first->runs, 7);

  const auto second = bisect_passes(graph_, options_, at_least(2));
  ASSERT_TRUE(second && second->culprit);
  EXPECT_EQ(second->culprit->name, "fuse_activation");
  EXPECT_EQ(second->culprit->number, 3);
  EXPECT_EQ(second->culprit->round, 2);
  EXPECT_LE(second->trials, 7);
  EXPECT_EQ(print(graph_), before);
}

TEST_F(Bisect, NothingIsFoundWhereTheComparisonHolds) {
  const auto found = bisect_passes(graph_, options_, at_least(1));
  ASSERT_TRUE(found);
  EXPECT_FALSE(found->culprit);
  EXPECT_EQ(found->trials, 2);
  EXPECT_EQ(found->runs, 7);
}

TEST_F(Bisect, AGraphThatDiffersBeforeAnyPassIsAnError) {
  const auto found = bisect_passes(graph_, options_, at_least(4));
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().notes, ElementsAre("the graph differs before any pass has run"));
}

TEST_F(Bisect, UnknownNamesAreUsageErrors) {
  options_.skip = {"fold_all"};
  const auto found = bisect_passes(graph_, options_, at_least(1));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kUsage);
}

}  // namespace
}  // namespace htpipe
