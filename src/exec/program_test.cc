// Execution of graphs: PyTorch's own results, traces, errors, and independence of threads and workspaces.
#include "exec/program.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>

#include "import/pt2/import.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "passes/driver.h"
#include "tensor/idx.h"
#include "tensor/npy.h"

namespace htpipe {
namespace {

constexpr const char* kExample = HTPIPE_SOURCE_DIR "/examples/fashion_resnet/";

Graph parse(const std::string& text) {
  register_all_ops();
  auto graph = parse_graph(text);
  EXPECT_TRUE(graph) << graph.error().summary();
  return std::move(*graph);
}

Tensor floats(const Shape& shape, float first) {
  Tensor tensor({DType::kF32, shape, std::nullopt});
  for (float& x : tensor.mutable_data<float>()) x = (first += 0.37F) > 2 ? first -= 3.1F : first;
  return tensor;
}

const char* const kTwoLayers = R"(graph @two(%x: f32[1,6,6,2], %z: f32[1,6,6,3]) -> (%sum, %x) {
  %w = const f32[3,3,2,3] random 1
  %a = Conv2d(%x, %w, _) {data_layout="nhwc", pad_amount=[1,1,1,1], activation="relu"}
  %sum = ElementWiseBinary(%a, %z) {operation="add"}
})";

/// All 100 rows of reference.npz: what PyTorch computed with this very file.
void expect_pytorch_logits(const Graph& graph) {
  const auto arrays = read_npz(std::string(kExample) + "reference.npz");
  ASSERT_TRUE(arrays) << arrays.error().summary();
  Tensor want;
  for (const NamedTensor& array : *arrays) {
    if (array.name == "logits") want = array.tensor;
  }
  ASSERT_EQ(want.shape(), (Shape{100, 10}));
  const auto images = read_idx("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz");
  ASSERT_TRUE(images) << images.error().summary();
  const auto program = Program::make(graph, 0);
  ASSERT_TRUE(program) << program.error().summary();
  Program::Workspace workspace(*program);
  double worst = 0;
  for (std::size_t row = 0; row < 100; ++row) {
    Tensor image(graph.inputs()[0]->type);
    ASSERT_EQ(image.count(), 784);
    for (std::size_t i = 0; i < 784; ++i) {
      image.mutable_data<float>()[i] = static_cast<float>(images->data<std::uint8_t>()[row * 784 + i]) / 255.0F;
    }
    const auto logits = program->run(workspace, std::vector<Tensor>{image});
    ASSERT_TRUE(logits) << logits.error().summary();
    ASSERT_EQ((*logits)[0].count(), 10);
    for (std::size_t i = 0; i < 10; ++i) {
      worst = std::max(
          worst, std::fabs(static_cast<double>((*logits)[0].data<float>()[i] - want.data<float>()[row * 10 + i])));
    }
  }
  EXPECT_LT(worst, 1e-4);
}

TEST(Program, ExampleModelGivesPyTorchsLogits) {
  if (!std::filesystem::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  register_all_ops();
  auto graph = import_pt2(std::string(kExample) + "fashion_resnet.pt2");
  ASSERT_TRUE(graph) << graph.error().summary();
  expect_pytorch_logits(*graph);
  ASSERT_TRUE(run_passes(*graph));
  expect_pytorch_logits(*graph);
}

TEST(Program, TraceSeesInputsAndEveryResultOnceInOrder) {
  const Graph graph = parse(kTwoLayers);
  const std::vector<Tensor> inputs = {floats({1, 6, 6, 2}, 0.1F), floats({1, 6, 6, 3}, -0.4F)};
  std::vector<std::string> seen;
  std::vector<float> sum;
  const auto outputs = run_once(graph, inputs, 0, [&](const Value& value, const Tensor& tensor) {
    seen.push_back(value.name);
    EXPECT_EQ(tensor.shape(), value.type.shape);
    if (value.name == "sum") sum = to_floats(tensor);
  });
  ASSERT_TRUE(outputs) << outputs.error().summary();
  EXPECT_EQ(seen, (std::vector<std::string>{"x", "z", "a", "sum"}));
  EXPECT_EQ(sum, to_floats((*outputs)[0]));
  EXPECT_EQ(to_floats((*outputs)[1]), to_floats(inputs[0]));  // an input that is an output
}

TEST(Program, OutputsDoNotDependOnWhatRanBefore) {
  const Graph graph = parse(kTwoLayers);
  const auto program = Program::make(graph, 0);
  ASSERT_TRUE(program);
  Program::Workspace used(*program);
  const std::vector<Tensor> first = {floats({1, 6, 6, 2}, 0.1F), floats({1, 6, 6, 3}, -0.4F)};
  const std::vector<Tensor> second = {floats({1, 6, 6, 2}, 1.1F), floats({1, 6, 6, 3}, 0.9F)};
  const auto want = program->run(used, first);
  ASSERT_TRUE(want);
  ASSERT_TRUE(program->run(used, second));
  const auto again = program->run(used, first);
  ASSERT_TRUE(again);
  EXPECT_EQ(to_floats((*again)[0]), to_floats((*want)[0]));
}

TEST(Program, ThreadsShareAProgram) {
  const Graph graph = parse(kTwoLayers);
  const auto program = Program::make(graph, 0);
  ASSERT_TRUE(program);
  const auto compute = [&program](float seed) {
    Program::Workspace workspace(*program);
    std::vector<float> all;
    for (int i = 0; i < 20; ++i) {
      const float start = seed + static_cast<float>(i) * 0.01F;
      const auto outputs =
          program->run(workspace, std::vector<Tensor>{floats({1, 6, 6, 2}, start), floats({1, 6, 6, 3}, -start)});
      const auto values = to_floats((*outputs)[0]);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  };
  std::vector<std::vector<float>> want;
  for (int t = 0; t < 4; ++t) want.push_back(compute(static_cast<float>(t) * 0.1F));
  std::vector<std::vector<float>> got(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] { got[t] = compute(static_cast<float>(t) * 0.1F); });
  }
  EXPECT_EQ(got, want);
}

TEST(Program, WrongInputsAreErrors) {
  const Graph graph = parse(kTwoLayers);
  const Tensor x = floats({1, 6, 6, 2}, 0);
  const Tensor z = floats({1, 6, 6, 3}, 0);
  const auto code = [&graph](const std::vector<Tensor>& inputs) {
    const auto outputs = run_once(graph, inputs);
    return outputs ? "none" : std::string(word(outputs.error().code)) + " " + outputs.error().place.node;
  };
  EXPECT_EQ(code({x, z}), "none");
  EXPECT_EQ(code({x}), "shape-mismatch ");
  EXPECT_EQ(code({x, x}), "shape-mismatch z");
  EXPECT_EQ(code({Tensor({DType::kU8, {1, 6, 6, 2}, std::nullopt}), z}), "dtype-mismatch x");
}

TEST(Program, OperatorsWithoutARuleAreNamed) {
  const Graph graph = parse(R"(graph @g(%x: u8<scale 0.1, zero 3>[1,4,4,2]) -> (%y) {
    %w = const f32[2] [1,2]
    %b = const f32[2] [0,1]
    %n = ElementWiseNeuron(%x) {operation="relu"} : u8<scale 0.1, zero 3>[1,4,4,2]
    %y = Batchnorm(%n, %w, %b) {data_layout="nhwc"} : u8<scale 0.1, zero 3>[1,4,4,2]
  })");
  const auto program = Program::make(graph, 73);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error().code, Code::kNoFixedRule);
  EXPECT_EQ(program.error().place.node, "y");
}

TEST(Program, Fp16ResultsAreBinary16Numbers) {
  const Graph graph = parse(R"(graph @g(%a: f16[4], %b: f16[4]) -> (%y) {
    %y = ElementWiseBinary(%a, %b) {operation="add"}
  })");
  const std::vector<std::uint16_t> a = {to_f16(2048), to_f16(-2048), to_f16(1), to_f16(60000)};
  const std::vector<std::uint16_t> b = {to_f16(1), to_f16(-1), to_f16(0.00048828125F), to_f16(60000)};
  const auto y = run_once(graph, std::vector<Tensor>{Tensor::from<std::uint16_t>({DType::kF16, {4}, {}}, a),
                                                     Tensor::from<std::uint16_t>({DType::kF16, {4}, {}}, b)});
  ASSERT_TRUE(y) << y.error().summary();
  const auto got = to_floats((*y)[0]);
  // 2049 lies between 2048 and 2050: away from zero, as the emulator does (docs/htp-arithmetic.md).
  EXPECT_EQ(got, (std::vector<float>{2050, -2050, 1.0009765625F, INFINITY}));
}

}  // namespace
}  // namespace htpipe
