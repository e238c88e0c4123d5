// The driver: order, groups, skipping, stopping, checks, and the books that it keeps.
#include "passes/driver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/io.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "passes/order.h"
#include "passes/pass.h"

namespace htpipe {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Driver : public testing::Test {
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
  }

  static std::vector<std::string> names(const std::vector<PassRecord>& records, bool skipped) {
    std::vector<std::string> result;
    for (const PassRecord& record : records) {
      if (record.skipped == skipped) result.push_back(record.name);
    }
    return result;
  }

  Graph graph_{"empty"};
};

// The network of PP-OCR: the sixth of a hard swish stands in front of a scale that it must not become part of first.
TEST_F(Driver, AHardSwishIsRecognisedInFrontOfAScale) {
  for (const auto* order : {&default_order(), &onnx_order()}) {
    auto graph = parse_graph(R"(graph @g(%x: f32[1,2,3,4], %z: f32[1,2,3,4]) -> (%y) {
      %w = const f32[2,2,1,1] [1,-2,3,-4]
      %c = Conv2d(%x, %w)
      %three = const f32[1] [3]
      %six = const f32[1] [6]
      %half = const f32[1] [0.5]
      %s = ElementWiseBinary(%c, %three) {operation="add"}
      %clip = ElementWiseNeuron(%s) {operation="relu_min_max", min_value=0.0f, max_value=6.0f}
      %p = ElementWiseBinary(%c, %clip) {operation="multiply"}
      %h = ElementWiseBinary(%p, %six) {operation="divide"}
      %m = ElementWiseBinary(%h, %half) {operation="multiply"}
      %y = ElementWiseBinary(%m, %z) {operation="add"}
    })");
    ASSERT_TRUE(graph) << graph.error().summary();
    PassOptions options;
    options.order = *order;
    ASSERT_TRUE(run_passes(*graph, options));
    EXPECT_THAT(print(*graph), HasSubstr("hard_swish"));
  }
}

TEST_F(Driver, RecordsWhatEachPassDid) {
  PassOptions options;
  options.order = {"remove_dead_code", "fold_batchnorm", "fuse_activation"};
  const auto records = run_passes(graph_, options);
  ASSERT_TRUE(records) << records.error().summary();
  ASSERT_EQ(names(*records, false), options.order);
  const PassRecord& idle = (*records)[0];
  EXPECT_EQ(idle.rewrites, 0);
  EXPECT_EQ(idle.nodes_before, 3U);
  EXPECT_EQ(idle.nodes_after, 3U);
  EXPECT_THAT(idle.notes, IsEmpty());
  const PassRecord& fold = (*records)[1];
  EXPECT_EQ(fold.rewrites, 1);
  EXPECT_EQ(fold.nodes_before, 3U);
  EXPECT_EQ(fold.nodes_after, 2U);
  EXPECT_GE(fold.time_ms, 0);
  EXPECT_THAT(fold.notes, ElementsAre("Batchnorm %bn (layer head.bn) folded into FullyConnected %fc (layer head.fc); "
                                      "%fc is now %bn"));
  EXPECT_EQ((*records)[2].nodes_after, 1U);
  EXPECT_EQ(graph_.nodes().front()->name(), "relu");
  EXPECT_EQ(graph_.nodes().front()->source.layer, "head.fc");
}

TEST_F(Driver, GroupsRepeatUntilNothingIsFound) {
  PassOptions options;
  // In the wrong order: the activation can be fused only in the second round.
  options.order = {"fuse_activation fold_batchnorm"};
  const auto records = run_passes(graph_, options);
  ASSERT_TRUE(records);
  std::vector<int> rewrites;
  std::vector<int> rounds;
  for (const PassRecord& record : *records) {
    rewrites.push_back(record.rewrites);
    rounds.push_back(record.round);
  }
  EXPECT_THAT(rewrites, ElementsAre(0, 1, 1, 0, 0, 0));
  EXPECT_THAT(rounds, ElementsAre(1, 1, 2, 2, 3, 3));
}

TEST_F(Driver, AGroupThatDoesNotSettleSaysSo) {
  PassOptions options;
  options.order = {"fuse_activation fold_batchnorm"};
  options.max_rounds = 1;
  const auto records = run_passes(graph_, options);
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 2U);
  EXPECT_THAT(records->back().notes, Contains(HasSubstr("still changed the graph in round 1")));
}

TEST_F(Driver, SkippedPassesAreRecordedWithTheReason) {
  PassOptions options;
  options.order = {"fold_batchnorm", "fuse_activation"};
  options.skip = {"fold_batchnorm"};
  const auto records = run_passes(graph_, options);
  ASSERT_TRUE(records);
  EXPECT_THAT(names(*records, true), ElementsAre("fold_batchnorm"));
  EXPECT_EQ((*records)[0].why, "left out by the options");
  EXPECT_EQ(graph_.nodes().size(), 3U);
}

TEST_F(Driver, StopsBehindTheNamedPass) {
  PassOptions options;
  options.order = {"fold_batchnorm fuse_activation", "remove_dead_code"};
  options.stop_after = "fold_batchnorm";
  const auto records = run_passes(graph_, options);
  ASSERT_TRUE(records);
  EXPECT_THAT(names(*records, false), ElementsAre("fold_batchnorm"));
  EXPECT_THAT(names(*records, true), ElementsAre("fuse_activation", "remove_dead_code"));
  EXPECT_EQ(records->back().why, "the run stops after fold_batchnorm");
  EXPECT_EQ(graph_.nodes().size(), 2U);
}

TEST_F(Driver, UnknownNamesAreUsageErrorsThatNameTheKnown) {
  const std::string before = print(graph_);
  for (const int where : {0, 1, 2, 3}) {
    PassOptions options;
    options.order = {where == 0 ? "fold_batchnorm fold_all" : "fold_batchnorm"};
    if (where == 1) options.skip = {"fold_all"};
    if (where == 2) options.stop_after = "fold_all";
    if (where == 3) options.order = {""};
    const auto records = run_passes(graph_, options);
    ASSERT_FALSE(records) << where;
    EXPECT_EQ(records.error().code, Code::kUsage);
    EXPECT_THAT(records.error().message,
                AllOf(HasSubstr(where == 3 ? "\"\"" : "\"fold_all\""), HasSubstr("fold_batchnorm, fold_constants")));
    EXPECT_EQ(print(graph_), before) << "nothing runs before all names are known";
  }
}

TEST_F(Driver, TheCheckSeesEveryChangeAndItsErrorNamesThePass) {
  PassOptions options;
  std::vector<std::string> seen;
  options.check = [&seen](const Graph& graph, std::string_view pass) -> Status {
    seen.emplace_back(pass);
    if (pass == "fuse_activation")
      return fail(Error(Code::kPassChangedResult, "too far off").at_node(graph.nodes().front()->name()));
    return {};
  };
  const auto records = run_passes(graph_, options);
  ASSERT_FALSE(records);
  EXPECT_EQ(records.error().code, Code::kPassChangedResult);
  EXPECT_EQ(records.error().place.pass, "fuse_activation");
  EXPECT_EQ(records.error().place.node, "relu");
  EXPECT_THAT(seen, ElementsAre("fold_batchnorm", "fuse_activation"));
}

TEST_F(Driver, RunsAreNumberedAndOneOfThemCanBeTheLast) {
  PassOptions options;
  options.order = {"remove_dead_code", "fuse_activation fold_batchnorm"};
  options.skip = {"remove_dead_code"};
  options.stop_after_run = 2;
  const auto records = run_passes(graph_, options);
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 3U);
  EXPECT_EQ((*records)[0].number, 0) << "it did not run";
  EXPECT_EQ((*records)[1].number, 1);
  EXPECT_EQ((*records)[2].number, 2);
  EXPECT_EQ(graph_.nodes().size(), 2U) << "the second round would fuse the activation";
}

TEST_F(Driver, DumpsHoldTheGraphBehindEveryRunThatChangedIt) {
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  PassOptions options;
  options.order = {"remove_dead_code", "fold_batchnorm", "fuse_activation"};
  options.observer = dump_into(folder->path());
  ASSERT_TRUE(run_passes(graph_, options));
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder->path())) names.insert(entry.path().filename());
  EXPECT_THAT(names, testing::ElementsAre("002_fold_batchnorm.htir", "003_fuse_activation.htir"));
  const auto text = read_text(folder->path() / "003_fuse_activation.htir");
  ASSERT_TRUE(text);
  EXPECT_EQ(*text, print(graph_));
}

TEST_F(Driver, UnusedConstantsDisappear) {
  for (const char* name : {"a", "b", "c", "d", "e"}) graph_.add_constant(name, Tensor({DType::kF32, {4}, {}}));
  PassOptions options;
  options.order = {"remove_dead_code"};
  const auto records = run_passes(graph_, options);
  ASSERT_TRUE(records);
  ASSERT_EQ(records->size(), 1U);
  EXPECT_EQ((*records)[0].rewrites, 5);
  EXPECT_THAT((*records)[0].notes, ElementsAre("constants unused: %a, %b, %c, %d and 1 more"));
  EXPECT_EQ(graph_.find_value("e"), nullptr);
  EXPECT_NE(graph_.find_value("w"), nullptr);
}

TEST_F(Driver, DefaultPassesLeaveNoConstantBehind) {
  ASSERT_TRUE(run_passes(graph_));
  for (const auto& value : graph_.values()) {
    EXPECT_FALSE(value->is_constant() && value->users.empty()) << value->name;
  }
}

TEST(PassList, EveryPassHasGoldensAndAPlaceInTheDefaultOrder) {
  std::set<std::string_view> ordered;
  std::set<std::string_view> for_onnx;
  for (const auto& [order, names] : {std::pair(&default_order(), &ordered), std::pair(&onnx_order(), &for_onnx)}) {
    for (const std::string& step : *order) {
      const auto passes = passes_of(step);
      ASSERT_TRUE(passes) << step;
      for (const Pass* pass : *passes) names->insert(pass->name);
    }
  }
  std::string last;
  for (const Pass* pass : all_passes()) {
    const std::string name(pass->name);
    EXPECT_LT(last, name) << "pass_list.inc is sorted";
    EXPECT_EQ(find_pass(name), pass);
    // Only the export to ONNX asks for it: the chip's MatMul transposes for nothing.
    EXPECT_EQ(ordered.count(name), name == "join_product_transposes" ? 0U : 1U) << name;
    EXPECT_TRUE(ordered.count(name) + for_onnx.count(name) > 0) << name;
    EXPECT_FALSE(pass->doc.empty());
    const std::filesystem::path source = std::filesystem::path(HTPIPE_SOURCE_DIR) / "src/passes" / (name + ".cc");
    EXPECT_TRUE(std::filesystem::exists(source)) << source;
    const std::filesystem::path folder = std::filesystem::path(HTPIPE_SOURCE_DIR) / "tests/golden" / name;
    ASSERT_TRUE(std::filesystem::is_directory(folder)) << folder;
    EXPECT_GE(std::distance(std::filesystem::directory_iterator(folder), {}), 3) << folder;
    last = name;
  }
  EXPECT_EQ(find_pass("no_such_pass"), nullptr);
}

}  // namespace
}  // namespace htpipe
