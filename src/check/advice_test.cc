// Every rule of the table: a graph in which it fires, and one model in which few do.
#include "check/advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "check/apply.h"
#include "check/memory.h"
#include "exec/program.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "passes/driver.h"

namespace htpipe::check {
namespace {

Graph parsed(const std::string& text) {
  register_all_ops();
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().summary() << "\n" << text;
  return graph ? std::move(*graph) : Graph("none");
}

struct Case {
  const char* rule;
  const char* inputs;
  const char* outputs;
  const char* body;
  const char* quiet;  ///< the same with what the rule is about taken away; nullptr = the plain graph
  int htp_version = 75;
  Precision precision = Precision::kInt8;
};

const Case kCases[] = {
    {"prelu", "%x: f32[1,4,4,32]", "%y", "%a = const f32[32] random 1\n%y = Prelu(%x, %a)",
     "%y = ElementWiseNeuron(%x) {operation=\"relu\"}"},
    {"silu", "%x: f32[1,4,4,32]", "%y",
     "%s = ElementWiseNeuron(%x) {operation=\"sigmoid\"}\n%y = ElementWiseBinary(%x, %s) {operation=\"multiply\"}",
     "%y = ElementWiseNeuron(%x) {operation=\"hard_swish\"}"},
    {"gelu-tanh", "%x: f32[1,4]", "%y", "%y = ElementWiseNeuron(%x) {operation=\"gelu_tanh\"}",
     "%y = ElementWiseNeuron(%x) {operation=\"gelu\"}"},
    {"division", "%x: f32[1,4], %z: f32[1,4]", "%y", "%y = ElementWiseBinary(%x, %z) {operation=\"divide\"}",
     "%y = ElementWiseBinary(%x, %z) {operation=\"multiply\"}"},
    {"power", "%x: f32[1,4]", "%y", "%e = const f32[1] [0.7]\n%y = ElementWiseBinary(%x, %e) {operation=\"power\"}",
     "%e = const f32[1] [2]\n%y = ElementWiseBinary(%x, %e) {operation=\"power\"}"},
    {"batchnorm-alone", "%x: f32[1,4,4,32]", "%y",
     "%s = const f32[32] random 1\n%t = const f32[32] random 2\n%y = Batchnorm(%x, %s, %t) {data_layout=\"nhwc\"}",
     "%s = const f32[1,1,1,32] random 1\n%y = ElementWiseBinary(%x, %s) {operation=\"multiply\"}"},
    {"group-norm", "%x: f32[1,4,4,32]", "%y",
     "%s = const f32[32] random 1\n%t = const f32[32] random 2\n"
     "%y = GroupNorm(%x, %s, %t) {data_layout=\"nhwc\", group=4}",
     "%s = const f32[32] random 1\n%t = const f32[32] random 2\n%y = LayerNorm(%x, %s, %t) {axes=[3]}"},
    {"pad-between", "%x: f32[1,4,4,32]", "%y", "%y = Pad(%x) {pad_amount=[0,0,1,1,1,1,0,0], scheme=\"mirror_reflect\"}",
     "%w = const f32[3,3,32,32] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\", pad_amount=[1,1,1,1]}"},
    {"concat-many", "%x: f32[1,4]", "%y", "%y = Concat(%x, %x, %x, %x, %x, %x, %x, %x, %x) {axis=1}",
     "%y = Concat(%x, %x) {axis=1}"},
    {"gather-computed", "%x: f32[5,7], %k: f32[3,5]", "%y", "%i = Argmax(%k) {axis=1}\n%y = Gather(%x, %i) {axis=0}",
     "%i = const i32[2] [1,2]\n%y = Gather(%x, %i) {axis=0}"},
    {"topk", "%x: f32[1,9]", "%y, %i", "%y, %i = TopK(%x) {k=3, axis=1}",
     "%y = ReduceMax(%x) {axes=[1]}\n%i = Argmax(%x) {axis=1}"},
    {"resize-cubic", "%x: f32[1,4,4,32]", "%y",
     "%y = Resize(%x) {data_layout=\"nhwc\", sizes=[8,8], interpolation_mode=\"cubic\"}",
     "%y = Resize(%x) {data_layout=\"nhwc\", sizes=[8,8], interpolation_mode=\"linear\"}"},
    {"reduce-channels", "%x: f32[1,4,4,64]", "%y", "%y = ReduceMean(%x) {axes=[3], keep_dims=true}",
     "%y = ReduceMean(%x) {axes=[1,2], keep_dims=true}"},
    {"transposes", "%x: f32[1,4,5]", "%y", "%y = Transpose(%x) {perm=[0,2,1]}", "%y = Reshape(%x) {shape=[1,5,4]}"},
    {"conv-channels-32", "%x: f32[1,4,4,48]", "%y",
     "%w = const f32[3,3,48,40] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\"}",
     "%v = const f32[3,3,64,64] random 2\n"
     "%p = Concat(%x, %x, %x, %x) {axis=3}\n%s = StridedSlice(%p) {begin=[0,0,0,0], end=[1,4,4,64], "
     "strides=[1,1,1,1]}\n"
     "%y = Conv2d(%s, %v, _) {data_layout=\"nhwc\"}"},
    {"conv-grouped", "%x: f32[1,4,4,32]", "%y",
     "%w = const f32[3,3,8,32] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\", group=4}",
     "%w = const f32[3,3,32,32] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\"}"},
    {"conv-dilated", "%x: f32[1,9,9,32]", "%y",
     "%w = const f32[3,3,32,32] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\", dilation=[2,2]}",
     "%w = const f32[3,3,32,32] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\"}"},
    {"conv-kernel-large", "%x: f32[1,19,19,32]", "%y",
     "%w = const f32[9,9,32,32] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\"}",
     "%w = const f32[7,7,32,32] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\"}"},
    {"conv-pointwise-strided", "%x: f32[1,8,8,32]", "%y",
     "%w = const f32[1,1,32,32] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\", stride=[2,2]}",
     "%w = const f32[3,3,32,32] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\", stride=[2,2]}"},
    {"stem-few-channels", "%x: f32[1,8,8,3]", "%y",
     "%w = const f32[3,3,3,32] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\"}",
     "%s = SpaceToDepth(%x) {data_layout=\"nhwc\", block_size=[4,4]}\n%w = const f32[1,1,48,32] random 1\n"
     "%y = Conv2d(%s, %w, _) {data_layout=\"nhwc\"}"},
    {"depthwise-copies", "%x: f32[1,8,8,32]", "%y",
     "%w = const f32[3,3,1,32] random 1\n%y = DepthWiseConv2d(%x, %w, _) {data_layout=\"nhwc\"}", nullptr, 68},
    {"linear-memory-bound", "%x: f32[1,2048]", "%y", "%w = const f32[1024,2048] random 1\n%y = FullyConnected(%x, %w)",
     "%w = const f32[8,2048] random 1\n%y = FullyConnected(%x, %w)"},
    {"attention-unmerged", "%x: f32[1,8]", "%a, %b",
     "%w = const f32[4,8] random 1\n%a = FullyConnected(%x, %w)\n%b = FullyConnected(%x, %w)",
     "%w = const f32[4,8] random 1\n%a = FullyConnected(%x, %w)\n%b = ElementWiseNeuron(%x) {operation=\"relu\"}"},
    {"add-ranges", "%x: u8<scale 1, zero 0>[1,8], %z: u8<scale 0.001, zero 0>[1,8]", "%y",
     "%y = ElementWiseBinary(%x, %z) {operation=\"add\"} : u8<scale 1, zero 0>[1,8]",
     "%y = ElementWiseBinary(%x, %x) {operation=\"add\"} : u8<scale 1, zero 0>[1,8]"},
    {"concat-ranges", "%x: u8<scale 1, zero 0>[1,8], %z: u8<scale 0.001, zero 0>[1,8]", "%y",
     "%y = Concat(%x, %z) {axis=1} : u8<scale 1, zero 0>[1,16]",
     "%y = Concat(%x, %x) {axis=1} : u8<scale 1, zero 0>[1,16]"},
    {"float-island", "%x: u8<scale 1, zero 0>[1,8]", "%y",
     "%f = Dequantize(%x) {to=\"f32\"}\n%y = ElementWiseUnary(%f) {operation=\"exp\"}",
     "%y = ElementWiseNeuron(%x) {operation=\"relu\"} : u8<scale 1, zero 0>[1,8]"},
    {"converts", "%x: u8<scale 1, zero 0>[1,8]", "%y", "%y = Convert(%x) {to=\"u16\"} : u16<scale 0.01, zero 0>[1,8]",
     "%y = ElementWiseNeuron(%x) {operation=\"relu\"} : u8<scale 1, zero 0>[1,8]"},
    {"int16-old-chip", "%x: f32[1,8]", "%y", "%y = ElementWiseNeuron(%x) {operation=\"relu\"}", nullptr, 68,
     Precision::kInt16},
    {"fp16-missing", "%x: f32[1,8]", "%y", "%y = ElementWiseNeuron(%x) {operation=\"relu\"}", nullptr, 75,
     Precision::kFp16},
    {"softmax-long", "%x: u8<scale 1, zero 0>[1,600]", "%y",
     "%y = Softmax(%x) {axis=1} : u8<scale 0.00390625, zero 0>[1,600]",
     "%s = StridedSlice(%x) {begin=[0,0], end=[1,100], strides=[1,1]} : u8<scale 1, zero 0>[1,100]\n"
     "%y = Softmax(%s) {axis=1} : u8<scale 0.00390625, zero 0>[1,100]"},
    {"embedding-large", "%x: i32[1,3]", "%y", "%t = const f32[4096,256] random 1\n%y = Gather(%t, %x) {axis=0}",
     "%t = const f32[8,4] random 1\n%y = Gather(%t, %x) {axis=0}"},
    {"layer-norm-int8", "%x: u8<scale 1, zero 0>[1,32]", "%y",
     "%g = const u8<scale 0.01, zero 0>[32] random 1\n%b = const i32<scale 0.01, zero 0>[32] random 2\n"
     "%y = LayerNorm(%x, %g, %b) {axes=[1]} : u8<scale 0.01, zero 128>[1,32]",
     nullptr},
    {"rank-above-four", "%x: f32[2,2,2,2,2]", "%y", "%y = ElementWiseNeuron(%x) {operation=\"relu\"}",
     "%r = Reshape(%x) {shape=[4,2,2,2]}\n%y = ElementWiseNeuron(%r) {operation=\"relu\"}"},
    {"unused-input", "%x: f32[1,8], %z: f32[1,8]", "%y", "%y = ElementWiseNeuron(%x) {operation=\"relu\"}",
     "%y = ElementWiseBinary(%x, %z) {operation=\"add\"}"},
    {"input-int64", "%x: i64[1,3]", "%y", "%t = const f32[9,8] random 1\n%y = Gather(%t, %x) {axis=0}", nullptr},
    {"batch-above-one", "%x: f32[2,4,4,8]", "%y", "%y = ElementWiseNeuron(%x) {operation=\"relu\"}", nullptr},
    {"input-channel-first", "%x: f32[1,3,4,4]", "%y",
     "%t = Transpose(%x) {perm=[0,2,3,1]}\n%y = ElementWiseNeuron(%t) {operation=\"relu\"}",
     "%y = ElementWiseNeuron(%x) {operation=\"relu\"}"},
    {"growth", "%x: f32[1,8,8,4]", "%y",
     "%w = const f32[1,1,4,64] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\"}",
     "%w = const f32[1,1,4,8] random 1\n%y = Conv2d(%x, %w, _) {data_layout=\"nhwc\"}"},
    {"vtcm-pressure", "%x: f32[1,512,512,4]", "%y", "%y = ElementWiseNeuron(%x) {operation=\"relu\"}", nullptr},
    {"spill", "%x: f32[1,512,512,8]", "%y", "%y = ElementWiseNeuron(%x) {operation=\"relu\"}", nullptr},
};

std::set<std::string> fired(const Graph& graph, const Case& one) {
  Target target;
  target.id = "chip";
  target.vtcm_mb = 4;
  target.htp_version = one.htp_version;
  const Subject subject{graph, graph, graph, target, one.precision};
  std::set<std::string> rules;
  for (const Advice& advice : advise(subject, estimate_memory(subject))) {
    EXPECT_FALSE(advice.issue.empty());
    EXPECT_FALSE(advice.text.empty());
    EXPECT_TRUE(!advice.gain || advice.gain->amount > 0) << advice.rule;
    rules.insert(advice.rule);
  }
  return rules;
}

Graph graph_of(const Case& one, const char* body) {
  return parsed(fmt::format("graph @g({}) -> ({}) {{\n{}\n}}\n", one.inputs, one.outputs, body));
}

class AdviceRules : public testing::TestWithParam<Case> {};

TEST_P(AdviceRules, FiresWhereItIsMeantTo) {
  const Case& one = GetParam();
  EXPECT_THAT(fired(graph_of(one, one.body), one), testing::Contains(one.rule));
}

TEST_P(AdviceRules, IsQuietOtherwise) {
  const Case& one = GetParam();
  if (one.quiet != nullptr) {
    EXPECT_THAT(fired(graph_of(one, one.quiet), one), testing::Not(testing::Contains(one.rule)));
    return;
  }
  const Case plain = {"", "%x: f32[1,8]", "%y", "%y = ElementWiseNeuron(%x) {operation=\"relu\"}", nullptr};
  EXPECT_THAT(fired(graph_of(plain, plain.body), plain), testing::IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Table, AdviceRules, testing::ValuesIn(kCases), [](const auto& one) {
  std::string name = one.param.rule;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

TEST(Advice, EveryRuleHasACase) {
  std::set<std::string> cases = {"context-too-large"};  // below
  for (const Case& one : kCases) cases.insert(one.rule);
  std::set<std::string> table;
  for (const AdviceRule& rule : advice_rules()) table.insert(std::string(rule.id));
  EXPECT_EQ(cases, table);
  EXPECT_TRUE(std::is_sorted(advice_rules().begin(), advice_rules().end(),
                             [](const AdviceRule& a, const AdviceRule& b) { return a.id < b.id; }));
}

TEST(Advice, AContextThatIsTooLargeIsAnError) {
  const Graph graph = parsed(
      "graph @g(%x: f32[1,64]) -> (%y) {\n%w = const f32[64,64] random 1\n%a = FullyConnected(%x, %w)\n"
      "%y = FullyConnected(%a, %w)\n}\n");
  Target target;
  target.vtcm_mb = 4;
  target.htp_version = 75;
  const Subject subject{graph, graph, graph, target, Precision::kInt8};
  const std::vector<Advice> list = advise(subject, estimate_memory(subject, 34000));
  ASSERT_FALSE(list.empty());
  EXPECT_EQ(list.front().rule, "context-too-large");
  EXPECT_EQ(list.front().severity, Severity::kError);
}

std::vector<float> outputs_of(const Graph& graph, const std::vector<Tensor>& inputs) {
  const auto program = Program::make(graph, 0);
  EXPECT_TRUE(program) << program.error().summary();
  Program::Workspace workspace(*program);
  const auto results = program->run(workspace, inputs);
  EXPECT_TRUE(results) << results.error().summary();
  return to_floats(results->front());
}

TEST(Apply, InputsChangeAndValuesStay) {
  Graph graph = parsed(R"(graph @g(%x: f32[1,3,4,5], %k: i64[2]) -> (%z) {
    %w = const f32[8,3,3,3] random 1
    %c = Conv2d(%x, %w, _)
    %z = Gather(%c, %k) {axis=1}
  })");
  Tensor image({DType::kF32, {1, 3, 4, 5}, std::nullopt});
  float next = -7;
  for (float& x : image.mutable_data<float>()) x = next += 0.3F;
  Tensor wide({DType::kI64, {2}, std::nullopt});
  wide.mutable_data<std::int64_t>()[0] = 5;
  wide.mutable_data<std::int64_t>()[1] = 2;
  Tensor narrow({DType::kI32, {2}, std::nullopt});
  narrow.mutable_data<std::int32_t>()[0] = 5;
  narrow.mutable_data<std::int32_t>()[1] = 2;
  const std::vector<float> before = outputs_of(graph, {image, wide});

  Graph optimised = graph.clone();
  ASSERT_TRUE(run_passes(optimised));
  const auto applied = apply_fixes(graph, optimised);
  ASSERT_TRUE(applied) << applied.error().summary();
  ASSERT_EQ(applied->size(), 2U);
  EXPECT_EQ((*applied)[0].rule, "input-channel-first");
  EXPECT_EQ((*applied)[1].rule, "input-int64");
  ASSERT_EQ(graph.inputs().size(), 2U);
  EXPECT_EQ(to_string(graph.inputs()[0]->type), "f32[1,4,5,3]");
  EXPECT_EQ(to_string(graph.inputs()[1]->type), "i32[2]");
  ASSERT_TRUE(verify(graph));
  EXPECT_EQ(outputs_of(graph, {transpose(image, {0, 2, 3, 1}), narrow}), before);

  ASSERT_TRUE(run_passes(graph));
  for (const auto& node : graph.nodes()) {
    EXPECT_FALSE(node->is("Transpose") && node->operands[0] == graph.inputs()[0]) << print(graph);
  }
}

}  // namespace
}  // namespace htpipe::check
