// Editing a graph keeps its books: users, names, order; verify finds what breaks them.
#include "ir/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "ir/text.h"
#include "ops/registry.h"

namespace htpipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kText = R"(graph @g(%x: f32[2]) -> (%c, %a) {
  %k = const f32[2] [1,2]
  %a = ElementWiseBinary(%x, %k) {operation="add"} @ "first"
  %b = ElementWiseBinary(%a, %a) {operation="multiply"} @ "second"
  %c = ElementWiseNeuron(%b) {operation="tanh"}
})";

class GraphEdit : public testing::Test {
 protected:
  void SetUp() override {
    register_all_ops();
    auto parsed = parse_graph(kText);
    ASSERT_TRUE(parsed) << parsed.error().summary();
    graph_ = std::move(*parsed);
  }
  [[nodiscard]] Value* value(std::string_view name) const { return graph_.find_value(name); }
  [[nodiscard]] Node* node(std::string_view name) const { return value(name)->producer; }

  Graph graph_{"empty"};
};

TEST_F(GraphEdit, UsersCountEveryUse) {
  EXPECT_THAT(value("x")->users, ElementsAre(node("a")));
  EXPECT_THAT(value("a")->users, ElementsAre(node("b"), node("b")));
  EXPECT_TRUE(value("c")->users.empty());
}

TEST_F(GraphEdit, ReplaceUsesMovesUsersAndOutputs) {
  graph_.replace_uses(value("a"), value("x"));
  EXPECT_TRUE(value("a")->users.empty());
  EXPECT_THAT(value("x")->users, ElementsAre(node("a"), node("b"), node("b")));
  EXPECT_THAT(graph_.outputs(), ElementsAre(value("c"), value("x")));
  EXPECT_TRUE(verify(graph_));
  graph_.erase(node("a"));
  EXPECT_EQ(value("a"), nullptr);
  EXPECT_THAT(value("x")->users, ElementsAre(node("b"), node("b")));
  EXPECT_TRUE(value("k")->users.empty());
  EXPECT_TRUE(verify(graph_));
}

TEST_F(GraphEdit, WhatIsUsedCannotBeErased) {
  EXPECT_THROW(graph_.erase(node("b")), BugError);
  EXPECT_THROW(graph_.erase(value("k")), BugError);
}

TEST_F(GraphEdit, NamesStayUnique) {
  EXPECT_EQ(graph_.unique_name("fresh"), "fresh");
  EXPECT_EQ(graph_.add_constant("k", Tensor({DType::kF32, {1}, {}}))->name, "k_2");
  EXPECT_EQ(graph_.add_constant("k", Tensor({DType::kF32, {1}, {}}))->name, "k_3");
  EXPECT_THROW(graph_.rename(value("k"), "x"), BugError);
  graph_.rename(value("k"), "weight");
  EXPECT_EQ(value("k"), nullptr);
  EXPECT_TRUE(verify(graph_));
}

TEST_F(GraphEdit, InsertedNodesStandInFront) {
  const auto added =
      graph_.add_node("ElementWiseNeuron", "n", {{"operation", std::string("relu")}}, {value("a")}, {}, node("b"));
  ASSERT_TRUE(added);
  graph_.set_operand(*node("b"), 1, (*added)->result());
  EXPECT_TRUE(verify(graph_));
  std::vector<std::string> names;
  for (const auto& each : graph_.nodes()) names.push_back(each->name());
  EXPECT_THAT(names, ElementsAre("a", "n", "b", "c"));
}

TEST_F(GraphEdit, CloneIsIndependent) {
  const std::string before = print(graph_);
  const std::string digest_before = digest(graph_);
  Graph copy = graph_.clone();
  EXPECT_EQ(print(copy), before);
  EXPECT_EQ(digest(copy), digest_before);
  Value* copied = copy.find_value("a");
  EXPECT_THAT(copied->users, ElementsAre(copy.find_value("b")->producer, copy.find_value("b")->producer));
  copy.rename(copied, "other");
  copy.set_operand(*copy.find_value("b")->producer, 1, copy.find_value("x"));
  EXPECT_EQ(print(graph_), before);
  EXPECT_TRUE(verify(graph_));
  EXPECT_TRUE(verify(copy));
}

TEST_F(GraphEdit, DigestSeesEveryByte) {
  std::string text = kText;
  const std::string original = digest(graph_);
  const auto same = parse_graph(text);
  ASSERT_TRUE(same);
  EXPECT_EQ(digest(*same), original);
  text.replace(text.find("[1,2]\n"), 5, "[1,3]");
  const auto other = parse_graph(text);
  ASSERT_TRUE(other);
  EXPECT_NE(digest(*other), original);
}

TEST_F(GraphEdit, VerifyFindsBrokenRules) {
  const auto broken = [this](const char* says) {
    const Status status = verify(graph_);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kGraphInvalid);
    EXPECT_THAT(status.error().message, HasSubstr(says));
    EXPECT_FALSE(status.error().place.node.empty());
  };
  value("a")->name = "b";
  broken("two values");
  value("b")->name = "a";
  ASSERT_TRUE(verify(graph_));

  value("b")->type.shape = {3};
  broken("f32[3]");
  value("b")->type.shape = {2};

  value("k")->type.shape = {1, 2};
  broken("another type");
  value("k")->type.shape = {2};

  graph_.set_operand(*node("a"), 1, value("c"));
  broken("before it is made");
}

}  // namespace
}  // namespace htpipe
