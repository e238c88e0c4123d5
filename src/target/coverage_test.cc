#include "target/coverage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "import/pt2/import.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "passes/driver.h"

namespace htpipe {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Target chip(const std::string& id) {
  const auto target = read_target(std::filesystem::path(HTPIPE_SOURCE_DIR) / "targets" / (id + ".yaml"));
  EXPECT_TRUE(target) << target.error().summary();
  return target ? *target : Target();
}

Graph parsed(const std::string& text) {
  register_all_ops();
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().summary();
  return graph ? std::move(*graph) : Graph("none");
}

Graph example() {
  register_all_ops();
  auto graph = import_pt2(std::filesystem::path(HTPIPE_SOURCE_DIR) / "examples/fashion_resnet/fashion_resnet.pt2");
  EXPECT_TRUE(graph) << graph.error().summary();
  return graph ? std::move(*graph) : Graph("none");
}

Graph optimised(const Graph& graph) {
  Graph result = graph.clone();
  const auto records = run_passes(result);
  EXPECT_TRUE(records) << records.error().summary();
  return result;
}

Coverage cover_by_table(const Graph& imported, const Graph& after, const Target& target, Precision precision) {
  return cover(imported, after, target, precision, [&](const Node& node) { return judge(node, target, precision); });
}

TEST(Coverage, EveryImportedNodeIsAccountedFor) {
  const Graph imported = example();
  const Graph after = optimised(imported);
  const Coverage coverage = cover_by_table(imported, after, chip("snapdragon-8-gen-3"), Precision::kInt8);
  ASSERT_EQ(coverage.nodes.size(), imported.nodes().size());
  EXPECT_EQ(coverage.total(), static_cast<std::int64_t>(imported.nodes().size()));
  EXPECT_EQ(coverage.unsupported, 0);
  EXPECT_EQ(coverage.percent(), 100.0);
  std::map<std::string, NodeVerdict> by_layer;
  for (const NodeVerdict& node : coverage.nodes) by_layer[node.layer + " " + node.op] = node;
  // Batch normalisation and activation disappear into the convolution, which stays.
  EXPECT_THAT(by_layer["bn Batchnorm"].reason, HasSubstr("became part of Conv2d"));
  EXPECT_THAT(by_layer["conv Conv2d"].reason, HasSubstr("goes on as Conv2d"));
  EXPECT_THAT(by_layer["pool PoolMax2d"].reason, HasSubstr("channel-last"));
  EXPECT_EQ(by_layer["classifier FullyConnected"].support, Support::kNative);
}

TEST(Coverage, AChipWithoutFloat16ExecutesNothingInIt) {
  const Graph imported = example();
  const Graph after = optimised(imported);
  const Coverage coverage = cover_by_table(imported, after, chip("snapdragon-7-gen-3"), Precision::kFp16);
  EXPECT_EQ(coverage.native + coverage.rewritten, 0);
  EXPECT_EQ(coverage.percent(), 0.0);
  for (const NodeVerdict& node : coverage.nodes) EXPECT_THAT(node.reason, HasSubstr("no float16")) << node.node;
}

TEST(Coverage, OneNodeThatIsNotExecutedIsNamed) {
  const Graph graph = parsed(
      "graph @g(%x: f32[1,1,1,2,2,2]) -> (%z) {\n"
      "  %y = Reshape(%x) {shape=[2,4]} : f32[2,4] @ \"flatten\"\n"
      "  %z = ElementWiseNeuron(%y) {operation=\"tanh\"} : f32[2,4] @ \"tanh\"\n}\n");
  const Coverage coverage = cover_by_table(graph, graph, chip("snapdragon-8-gen-3"), Precision::kInt8);
  EXPECT_EQ(coverage.unsupported, 1);
  EXPECT_EQ(coverage.native, 1);
  EXPECT_EQ(coverage.percent(), 50.0);
  EXPECT_EQ(coverage.nodes[0].support, Support::kUnsupported);
  const Json json = to_json(coverage);
  EXPECT_EQ(json["nodes"][0]["support"], "unsupported");
  EXPECT_EQ(json["percent"], 50.0);
}

TEST(Layers, ModulesThatAreCalledAgainMakeNoCycle) {
  const Graph graph = parsed(
      "graph @g(%x: f32[2,4]) -> (%d) {\n"
      "  %a = ElementWiseNeuron(%x) {operation=\"relu\"} : f32[2,4] @ \"act\"\n"
      "  %b = ElementWiseNeuron(%a) {operation=\"tanh\"} : f32[2,4] @ \"mid\"\n"
      "  %c = ElementWiseBinary(%b, %x) {operation=\"add\"} : f32[2,4] @ \"mid\"\n"
      "  %d = ElementWiseNeuron(%c) {operation=\"relu\"} : f32[2,4] @ \"act\"\n}\n");
  const auto layers = layer_dependencies(graph);
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(layers[0].layer, "act");
  EXPECT_THAT(layers[0].depends_on, ElementsAre("x"));
  EXPECT_EQ(layers[1].layer, "mid");
  EXPECT_THAT(layers[1].ops, ElementsAre("ElementWiseNeuron", "ElementWiseBinary"));
  EXPECT_THAT(layers[1].depends_on, ElementsAre("act", "x"));
  EXPECT_EQ(layers[2].layer, "act#2");
  EXPECT_THAT(layers[2].depends_on, ElementsAre("mid"));
}

TEST(Layers, TheExampleIsInExecutionOrder) {
  const Graph graph = example();
  const auto layers = layer_dependencies(graph);
  std::set<std::string> before;
  for (const Value* input : graph.inputs()) before.insert(input->name);
  for (const LayerDependency& layer : layers) {
    EXPECT_FALSE(layer.depends_on.empty()) << layer.layer;
    for (const std::string& from : layer.depends_on) EXPECT_EQ(before.count(from), 1U) << layer.layer << " <- " << from;
    EXPECT_TRUE(before.insert(layer.layer).second) << layer.layer << " stands twice";
  }
  // The residual block joins its two branches.
  for (const LayerDependency& layer : layers) {
    if (layer.layer == "block1#2") {
      EXPECT_THAT(layer.depends_on, ElementsAre("block1.bn2", "block1.shortcut_bn"));
    }
  }
}

TEST(Layers, DotTextQuotesNames) {
  const std::string dot = to_dot({{"a\"b", {"Conv2d"}, {"x\\y"}}}, "g");
  EXPECT_THAT(dot, HasSubstr("\"a\\\"b\" [label=\"a\\\"b: Conv2d\"];"));
  EXPECT_THAT(dot, HasSubstr("\"x\\\\y\" -> \"a\\\"b\";"));
}

}  // namespace
}  // namespace htpipe
