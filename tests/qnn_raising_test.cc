// What is lowered to QNN comes back: every conformance case, in every precision that it can be quantised to.
#include "export/qnn_raising.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "conformance_case.h"
#include "exec/program.h"
#include "export/qnn_lowering.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "qnn/sample_graph_test.h"
#include "qnn/vendor.h"

namespace htpipe {
namespace {

/// The graph without what no QNN graph holds: sources, activations that an encoding carries, the order of outputs, and
/// attributes that mean nothing for the operation.
std::string essence(const Graph& graph) {
  Graph copy = graph.clone();
  for (const auto& node : copy.nodes()) {
    node->source = {};
    if (node->attributes.find("activation") != nullptr && !is_float(node->result()->type.dtype)) {
      node->attributes.set("activation", std::string("none"));
    }
    // A shape with an open dimension is a shape all the same.
    if (node->is("Reshape")) node->attributes.set("shape", node->result()->type.shape);
    // The chip has one gelu.
    if (node->is("ElementWiseNeuron") && node->attributes.text("operation") == "gelu_tanh") {
      node->attributes.set("operation", std::string("gelu"));
    }
    for (const ParamLowering& lowering : node->op->lowering.params) {
      if (lowering.operation.empty()) continue;
      const auto& all = node->op->lowering.params;
      const bool used = std::any_of(all.begin(), all.end(), [&](const ParamLowering& other) {
        return other.attribute == lowering.attribute && node->attributes.text("operation") == other.operation;
      });
      if (!used) node->attributes.set(lowering.attribute, node->op->attribute(lowering.attribute)->default_value);
    }
  }
  for (const auto& value : copy.values()) {  // QNN has no rank 0
    if (!value->type.shape.empty()) continue;
    value->type.shape = {1};
    if (value->is_constant()) value->constant = value->constant.with_type(value->type);
  }
  std::vector<Value*> outputs = copy.outputs();
  std::sort(outputs.begin(), outputs.end(), [](const Value* a, const Value* b) { return a->name < b->name; });
  copy.set_outputs(std::move(outputs));
  return print(copy);
}

Result<Graph> quantized(const conformance::Case& test, Precision precision) {
  if (test.stored) return test.graph.clone();
  quant::Ranges ranges;
  if (precision != Precision::kFp16) {
    HTPIPE_TRY(ranges, conformance::all_ranges(test));
  }
  quant::QuantizeOptions options;
  options.default_precision = precision;
  options.weight_bits = test.weight_bits;
  options.precisions = test.precisions;
  return quant::quantize(test.graph, ranges, options);
}

TEST(QnnRaising, GivesEveryConformanceCaseBack) {
  register_all_ops();
  std::set<std::string> operators;
  int raised = 0;
  for (const auto& file : conformance::files()) {
    const auto cases = conformance::read(file);
    ASSERT_TRUE(cases) << cases.error().summary();
    for (const conformance::Case& test : *cases) {
      if (test.repeat > 0) continue;  // other numbers, the same form
      for (const Precision precision : {Precision::kInt8, Precision::kInt16, Precision::kFp16}) {
        const auto graph = quantized(test, precision);
        const auto spec = graph ? lower_to_qnn(*graph) : Result<qnn::GraphSpec>(fail(graph.error()));
        if (!spec) continue;  // not for the chip
        const auto& inputs = graph->inputs();
        const bool computed = std::none_of(graph->outputs().begin(), graph->outputs().end(), [&](const Value* output) {
          return output->is_constant() || std::find(inputs.begin(), inputs.end(), output) != inputs.end();
        });
        if (!computed) continue;  // an output that is an input: no QNN graph says so
        const auto back = raise_from_qnn(*spec);
        ASSERT_TRUE(back) << test.label() << ": " << back.error().summary();
        EXPECT_EQ(essence(*back), essence(*graph)) << test.label();
        EXPECT_EQ(print(*raise_from_qnn(*lower_to_qnn(*back))), print(*back)) << test.label();
        ++raised;
        for (const auto& node : graph->nodes()) operators.insert(std::string(node->op->name));
        if (test.stored) break;
      }
    }
  }
  EXPECT_GT(raised, 300);
  EXPECT_GT(operators.size(), 50U);
}

qnn::GraphSpec one_op(const std::string& type, std::vector<qnn::ParamSpec> params) {
  const TensorType type_of = {DType::kF16, {1, 4}, std::nullopt};
  return {"g",
          {{"x", qnn::TensorRole::kInput, type_of, {}}, {"y", qnn::TensorRole::kOutput, type_of, {}}},
          {{"op", type, std::move(params), {"x"}, {"y"}}}};
}

TEST(QnnRaising, RefusesWhatIsNotOurs) {
  register_all_ops();
  const auto code = [](const qnn::GraphSpec& spec) {
    const auto graph = raise_from_qnn(spec);
    return graph ? "none" : std::string(word(graph.error().code)) + " " + graph.error().place.node;
  };
  EXPECT_EQ(code(one_op("ElementWiseNeuron", {{"operation", std::uint32_t{4}}})), "none");
  EXPECT_EQ(code(one_op("NoSuchOperator", {})), "unsupported-op op");
  EXPECT_EQ(code(one_op("ElementWiseNeuron", {{"operation", std::uint32_t{99}}})), "unsupported-form op");
  EXPECT_EQ(code(one_op("ElementWiseNeuron", {{"operation", 4.0F}})), "unsupported-form op");
  EXPECT_EQ(code(one_op("ElementWiseNeuron", {{"operation", std::uint32_t{4}}, {"odd", true}})), "unsupported-form op");
  EXPECT_EQ(code(one_op("Softmax", {{"axis", std::string("one")}})), "unsupported-form op");
  qnn::GraphSpec spec = one_op("ElementWiseNeuron", {{"operation", std::uint32_t{4}}});
  spec.tensors[1].type.shape = {1, 5};
  EXPECT_EQ(code(spec), "graph-invalid op");
  spec = one_op("ElementWiseNeuron", {{"operation", std::uint32_t{4}}});
  spec.ops[0].inputs = {"z"};
  EXPECT_EQ(code(spec), "graph-invalid op");
  spec.ops.clear();
  EXPECT_EQ(code(spec), "graph-invalid y");
}

/// A DLC of the vendor's writer, read back by the vendor's reader.
TEST(QnnRaising, ReadsWhatTheVendorWrote) {
  const auto vendor = qnn::testing::find_vendor();
  if (!vendor) {
    ASSERT_EQ(vendor.error().code, Code::kVendorMissing);
    GTEST_SKIP() << vendor.error().summary();
  }
  register_all_ops();
  auto graph = parse_graph(R"(graph @net(%x: f32[1,8,8,3]) -> (%y) {
    %w = const f32[3,3,3,8] random 1
    %b = const f32[8] random 2
    %c = Conv2d(%x, %w, %b) {data_layout="nhwc", stride=[2,2], pad_amount=[1,1,1,1], activation="relu"}
    %p = PoolAvg2d(%c) {data_layout="nhwc", filter_size=[4,4], stride=[4,4]}
    %r = Reshape(%p) {shape=[1,8]}
    %v = const f32[5,8] random 3
    %f = FullyConnected(%r, %v)
    %y = Softmax(%f) {axis=1}
  })");
  ASSERT_TRUE(graph) << graph.error().summary();
  quant::Ranges ranges;
  for (const auto& value : graph->values()) ranges[value->name] = {-1.5F, 2.0F};
  const auto stored = quant::quantize(*graph, ranges, {});
  ASSERT_TRUE(stored) << stored.error().summary();
  const auto spec = lower_to_qnn(*stored);
  ASSERT_TRUE(spec) << spec.error().summary();
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  const auto file = folder->path() / "net.dlc";
  const auto written = vendor->compile_dlc(*spec, file);
  ASSERT_TRUE(written) << written.error().summary();
  const auto info = vendor->inspect_dlc(file);
  ASSERT_TRUE(info) << info.error().summary();
  ASSERT_EQ(info->graphs.size(), 1U);
  const auto back = raise_from_qnn(info->graphs.front());
  ASSERT_TRUE(back) << back.error().summary();
  EXPECT_EQ(essence(*back), essence(*stored));
  const std::vector<Tensor> inputs = conformance::inputs_of(*stored, ranges, 5);
  for (const int version : {68, 73, 75}) {
    const auto want = run_once(*stored, inputs, version);
    const auto got = run_once(*back, inputs, version);
    if (!want) continue;
    ASSERT_TRUE(got) << got.error().summary();
    EXPECT_TRUE(std::ranges::equal((*got)[0].bytes(), (*want)[0].bytes()));
  }
}

}  // namespace
}  // namespace htpipe
