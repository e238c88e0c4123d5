// The written message, its files, and that both are what the graph says.
#include "export/onnx/export.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx-ml.pb.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "base/io.h"
#include "exec/program.h"
#include "export/onnx/node_writer.h"
#include "import/onnx/import.h"
#include "ir/text.h"
#include "ops/registry.h"

namespace htpipe {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph graph_of(const char* text) {
  register_all_ops();
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().summary();
  return std::move(*graph);
}

std::string attribute_text(const onnx::AttributeProto& attribute) {
  std::string text = attribute.name() + "=";
  switch (attribute.type()) {
    case onnx::AttributeProto::INT:
      return text + std::to_string(attribute.i());
    case onnx::AttributeProto::INTS:
      for (const std::int64_t value : attribute.ints()) text += std::to_string(value) + ",";
      return text;
    case onnx::AttributeProto::STRING:
      return text + attribute.s();
    default:
      return text + "?";
  }
}

/// "Conv(x,w,b){strides=1,1,} -> y" per node.
std::vector<std::string> nodes_of(const onnx::ModelProto& model) {
  std::vector<std::string> lines;
  for (const onnx::NodeProto& node : model.graph().node()) {
    std::string line = node.op_type() + "(";
    for (int i = 0; i < node.input_size(); ++i) line += (i == 0 ? "" : ",") + node.input(i);
    line += "){";
    for (int i = 0; i < node.attribute_size(); ++i) line += (i == 0 ? "" : " ") + attribute_text(node.attribute(i));
    line += "} ->";
    for (const std::string& output : node.output()) line += " " + output;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> written(const char* text, std::int64_t opset = 17) {
  OnnxOptions options;
  options.opset = opset;
  const auto model = to_onnx(graph_of(text), options);
  EXPECT_TRUE(model) << (model ? "" : model.error().summary());
  return model ? nodes_of(**model) : std::vector<std::string>();
}

const char* const kNet = R"(graph @net(%x: f32[1,3,6,6]) -> (%y) {
  %w = const f32[8,3,3,3] random 1
  %b = const f32[8] random 2
  %c = Conv2d(%x, %w, %b) {pad_amount=[1,1,1,1], activation="relu"}
  %p = PoolMax2d(%c) {filter_size=[2,2], stride=[2,2]}
  %f = Reshape(%p) {shape=[1,72]}
  %v = const f32[5,72] random 3
  %y = FullyConnected(%f, %v, _)
})";

TEST(OnnxExport, EveryOperatorIsWritten) {
  register_all_ops();
  for (const OpDef* op : registered_ops()) {
    const bool conversion = op->name == "Quantize" || op->name == "Dequantize" || op->name == "Convert";
    EXPECT_TRUE(conversion || onnx_export::find_function(op->name) != nullptr) << op->name;
  }
}

TEST(OnnxExport, AChannelFirstNet) {
  EXPECT_THAT(
      written(kNet),
      ElementsAre("Conv(x,w,b){kernel_shape=3,3, strides=1,1, pads=1,1,1,1, dilations=1,1, group=1} -> c_result",
                  "Relu(c_result){} -> c", "MaxPool(c){kernel_shape=2,2, strides=2,2, pads=0,0,0,0,} -> p",
                  "Reshape(p,f_shape){} -> f", "Gemm(f,v){transB=1} -> y"));
}

TEST(OnnxExport, AChannelLastNodeHasTransposesAroundIt) {
  EXPECT_THAT(
      written(R"(graph @g(%x: f32[1,6,6,3]) -> (%y) {
  %w = const f32[3,3,3,8] random 1
  %y = Conv2d(%x, %w, _) {data_layout="nhwc", activation="relu6"}
})"),
      ElementsAre("Transpose(x){perm=0,3,1,2,} -> y_permuted",
                  "Conv(y_permuted,w_permuted){kernel_shape=3,3, strides=1,1, pads=0,0,0,0, dilations=1,1, "
                  "group=1} -> y_result",
                  "Clip(y_result,y_value,y_value_2){} -> y_result_2", "Transpose(y_result_2){perm=0,2,3,1,} -> y"));
}

TEST(OnnxExport, OneOperatorPerOpset) {
  const char* const gelu = R"(graph @g(%x: f32[4]) -> (%y) { %y = ElementWiseNeuron(%x) {operation="gelu"} })";
  EXPECT_THAT(written(gelu, 20), ElementsAre("Gelu(x){approximate=none} -> y"));
  EXPECT_EQ(written(gelu, 17).size(), 5U);
  const char* const mean = R"(graph @g(%x: f32[2,4]) -> (%y) { %y = ReduceMean(%x) {axes=[1], keep_dims=true} })";
  EXPECT_THAT(written(mean, 17), ElementsAre("ReduceMean(x){axes=1,} -> y"));
  EXPECT_THAT(written(mean, 18), ElementsAre("ReduceMean(x,y_axes){} -> y"));
}

TEST(OnnxExport, StoredIntegersStandBetweenQuantizeAndDequantize) {
  EXPECT_THAT(written(R"(graph @g(%x: u8<scale 0.5, zero 128>[1,2]) -> (%y) {
  %w = const i8<axis 0, scales [0.01,0.02], zeros [0,0]>[2,2] [1,2,3,4]
  %b = const i32<axis 0, scales [0.005,0.01], zeros [0,0]>[2] [10,20]
  %y = FullyConnected(%x, %w, %b) : u8<scale 0.25, zero 0>[1,2]
})"),
              ElementsAre("QuantizeLinear(x,x_quantized_scale,x_quantized_zero_point){} -> x_quantized",
                          "DequantizeLinear(b,b_scale){axis=0} -> b_dequantized",
                          "DequantizeLinear(x_quantized,x_quantized_scale,x_quantized_zero_point){} -> x_dequantized",
                          "DequantizeLinear(w,w_scale,w_zero_point){axis=0} -> w_dequantized",
                          "Gemm(x_dequantized,w_dequantized,b_dequantized){transB=1} -> y_real",
                          "QuantizeLinear(y_real,y_quantized_scale,y_quantized_zero_point){} -> y_quantized",
                          "DequantizeLinear(y_quantized,y_quantized_scale,y_quantized_zero_point){} -> y"));
}

TEST(OnnxExport, FourAndSixteenBitsNeedOpset21) {
  const char* const wide = R"(graph @g(%x: u16<scale 0.5, zero 128, bits 16>[1,2]) -> (%y) {
  %y = ElementWiseNeuron(%x) {operation="relu"} : u16<scale 0.5, zero 0, bits 16>[1,2]
})";
  const Graph graph = graph_of(wide);
  const auto old = to_onnx(graph);
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code, Code::kUnsupportedForm);
  EXPECT_EQ(old.error().place.node, "x");
  EXPECT_THAT(old.error().summary(), HasSubstr("opset 21"));
  OnnxOptions options;
  options.opset = 21;
  EXPECT_TRUE(to_onnx(graph, options));
}

TEST(OnnxExport, RefusalsNameTheNode) {
  const auto refused = [](const char* text, std::int64_t opset) {
    OnnxOptions options;
    options.opset = opset;
    const auto model = to_onnx(graph_of(text), options);
    EXPECT_FALSE(model) << text;
    return model ? Error(Code::kBug, "written") : model.error();
  };
  const Error scatter = refused(R"(graph @g(%x: f32[4,6], %u: f32[1]) -> (%y) {
  %i = const i32[1,2] [3,0]
  %y = ScatterNd(%x, %i, %u) {reduction="max"}
})",
                                17);
  EXPECT_EQ(scatter.code, Code::kUnsupportedForm);
  EXPECT_EQ(scatter.place.node, "y");
  EXPECT_EQ(refused("graph @g(%x: f32[4]) -> (%y) { %y = Reshape(%x) {shape=[2,2]} }", 12).code, Code::kUsage);
}

// --- files ----------------------------------------------------------------------------------------------------------

class OnnxFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = TemporaryFolder::create();
    ASSERT_TRUE(made);
    folder_.emplace(std::move(*made));
  }
  [[nodiscard]] fs::path model() const { return folder_->path() / "net.onnx"; }
  [[nodiscard]] std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_->path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  }

 private:
  std::optional<TemporaryFolder> folder_;
};

Tensor image() {
  Tensor tensor({DType::kF32, {1, 3, 6, 6}, std::nullopt});
  float value = -1;
  for (float& x : tensor.mutable_data<float>()) x = value += 0.01F;
  return tensor;
}

void expect_same(const Graph& graph, const fs::path& file) {
  const auto imported = import_onnx(file);
  ASSERT_TRUE(imported) << imported.error().summary();
  const auto want = run_once(graph, std::vector<Tensor>{image()});
  const auto got = run_once(imported->graph, std::vector<Tensor>{image()});
  ASSERT_TRUE(want && got);
  EXPECT_EQ(to_floats(want->front()), to_floats(got->front()));
}

TEST_F(OnnxFiles, TheSameGraphGivesTheSameBytesAndComputesTheSame) {
  const Graph graph = graph_of(kNet);
  ASSERT_TRUE(export_onnx(graph, model()));
  const auto first = read_text(model());
  ASSERT_TRUE(export_onnx(graph, model()));
  EXPECT_EQ(*first, *read_text(model()));
  EXPECT_THAT(entries(), ElementsAre("net.onnx"));
  expect_same(graph, model());
}

TEST_F(OnnxFiles, WeightsBesideTheModelAreAlignedAndRead) {
  const Graph graph = graph_of(kNet);
  OnnxOptions options;
  options.external_data = true;
  options.smallest_external = 16;
  const auto file = export_onnx(graph, model(), options);
  ASSERT_TRUE(file) << file.error().summary();
  EXPECT_THAT(entries(), ElementsAre("net.onnx", "net.onnx.data"));
  onnx::ModelProto proto;
  std::ifstream stream(model(), std::ios::binary);
  ASSERT_TRUE(proto.ParseFromIstream(&stream));
  std::vector<std::string> outside;
  for (const onnx::TensorProto& tensor : proto.graph().initializer()) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) continue;
    outside.push_back(tensor.name());
    EXPECT_TRUE(tensor.raw_data().empty());
    EXPECT_EQ(tensor.external_data(0).value(), "net.onnx.data");
    EXPECT_EQ(std::stoll(tensor.external_data(1).value()) % 64, 0) << tensor.name();
  }
  EXPECT_THAT(outside, ElementsAre("w", "b", "f_shape", "v"));
  expect_same(graph, model());
}

TEST_F(OnnxFiles, LargeTensorsBeginAtAPage) {
  const Graph graph = graph_of(R"(graph @g(%x: f32[1,3]) -> (%y) {
  %a = const f32[1,3] [1,2,3]
  %v = const f32[100000,3] random 3
  %s = ElementWiseBinary(%x, %a) {operation="add"}
  %y = FullyConnected(%s, %v, _)
})");
  OnnxOptions options;
  options.external_data = true;
  options.smallest_external = 1;
  ASSERT_TRUE(export_onnx(graph, model(), options));
  EXPECT_EQ(fs::file_size(model().string() + ".data"), 4096U + 1200000U);
}

TEST_F(OnnxFiles, AFailedCheckLeavesNothing) {
  OnnxOptions options;
  options.external_data = true;
  options.check = [](const fs::path& written) -> Status {
    EXPECT_TRUE(fs::exists(written));
    return fail(Code::kReferenceMismatch, "not the same");
  };
  const auto file = export_onnx(graph_of(kNet), model(), options);
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, Code::kReferenceMismatch);
  EXPECT_THAT(entries(), ElementsAre());
}

TEST_F(OnnxFiles, AFullDiskLeavesWhatStoodThere) {
  {
    std::ofstream(model()) << "before";
  }
  const Graph graph = graph_of(kNet);
  for (const bool external : {false, true}) {
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit before{};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const rlimit small{512, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    OnnxOptions options;
    options.external_data = external;
    options.smallest_external = 16;
    const auto file = export_onnx(graph, model(), options);
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code, Code::kOutputUnwritable);
    EXPECT_EQ(file.error().place.file, model().string());
    EXPECT_EQ(*read_text(model()), "before");
    EXPECT_THAT(entries(), ElementsAre("net.onnx"));
  }
}

}  // namespace
}  // namespace htpipe
