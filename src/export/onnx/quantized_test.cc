// A graph of the quantiser in QDQ form, executed by ONNX Runtime, against our fixed-point engine.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <random>

#include "base/io.h"
#include "exec/program.h"
#include "export/onnx/export.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "pipeline/python_bridge.h"
#include "pipeline/python_process.h"
#include "quant/quantize.h"
#include "tensor/npy.h"

namespace htpipe {
namespace {

namespace fs = std::filesystem;

const char* const kNet = R"(graph @net(%x: f32[1,8,8,3]) -> (%y) {
  %w = const f32[3,3,3,8] random 1
  %b = const f32[8] random 2
  %c = Conv2d(%x, %w, %b) {data_layout="nhwc", pad_amount=[1,1,1,1], activation="relu"}
  %p = PoolMax2d(%c) {data_layout="nhwc", filter_size=[2,2], stride=[2,2]}
  %u = const f32[3,3,1,8] random 4
  %d = DepthWiseConv2d(%p, %u, _) {data_layout="nhwc", pad_amount=[1,1,1,1]}
  %s = ElementWiseBinary(%p, %d) {operation="add"}
  %f = Reshape(%s) {shape=[1,128]}
  %v = const f32[5,128] random 3
  %y = FullyConnected(%f, %v, _)
})";

Tensor image(unsigned seed) {
  std::mt19937 random(seed);
  Tensor tensor({DType::kF32, {1, 8, 8, 3}, std::nullopt});
  for (float& x : tensor.mutable_data<float>()) {
    x = static_cast<float>(static_cast<double>(random()) / 2147483648.0 - 1.0);
  }
  return tensor;
}

/// Runs a model in ONNX Runtime node by node; nothing when there is none. Its fused integer kernels saturate in 16 bits on
/// machines without VNNI, and then compute something else than the model says.
std::optional<Tensor> run_onnx(const fs::path& folder, const Tensor& input) {
  EXPECT_TRUE(write_npy(folder / "x.npy", input));
  std::ofstream(folder / "run.py") << "import numpy, onnx, onnxruntime, sys\n"
                                      "folder = sys.argv[1]\n"
                                      "onnx.checker.check_model(folder + '/net.onnx', full_check=True)\n"
                                      "options = onnxruntime.SessionOptions()\n"
                                      "options.graph_optimization_level = "
                                      "onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL\n"
                                      "session = onnxruntime.InferenceSession(folder + '/net.onnx', options)\n"
                                      "(y,) = session.run(None, {'x': numpy.load(folder + '/x.npy')})\n"
                                      "numpy.save(folder + '/y.npy', y)\n";
  std::ofstream(folder / "empty.txt") << "";
  PythonStart start;
  start.interpreter = python_interpreter();
  start.arguments = {(folder / "run.py").string(), folder.string()};
  start.input = folder / "empty.txt";
  start.output = folder / "output.txt";
  const auto end = run_process(start, 300, {});
  if (!end || !fs::exists(folder / "y.npy")) {
    const std::string why = end ? end->output : end.error().summary();
    EXPECT_NE(why.find("No module named"), std::string::npos) << why;
    return std::nullopt;
  }
  const auto output = read_npy(folder / "y.npy");
  EXPECT_TRUE(output);
  return *output;
}

class QuantizedExport : public ::testing::TestWithParam<std::pair<int, std::int64_t>> {};

TEST_P(QuantizedExport, IsWithinTwoStepsOfOurEngine) {
  register_all_ops();
  const auto [weight_bits, opset] = GetParam();
  const auto graph = parse_graph(kNet);
  ASSERT_TRUE(graph) << graph.error().summary();
  const SampleSource source{
      8, [](std::int64_t i) { return Result<std::vector<Tensor>>({image(static_cast<unsigned>(i))}); }};
  const auto statistics = quant::calibrate(*graph, source);
  ASSERT_TRUE(statistics) << statistics.error().summary();
  quant::QuantizeOptions options;
  options.weight_bits = weight_bits;
  const auto quantized =
      quant::quantize(*graph, quant::choose_ranges(*statistics, quant::RangeMethod::kMinMax, 100, 8), options);
  ASSERT_TRUE(quantized) << quantized.error().summary();

  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  OnnxOptions onnx;
  onnx.opset = opset;
  const auto file = export_onnx(*quantized, folder->path() / "net.onnx", onnx);
  ASSERT_TRUE(file) << file.error().summary();
  for (unsigned seed = 100; seed < 103; ++seed) {
    const Tensor stored = quant::store_as(image(seed), quantized->inputs()[0]->type);
    const std::vector<float> real = to_floats(stored);
    const Tensor input = Tensor::from<float>({DType::kF32, stored.shape(), std::nullopt}, real);
    const auto want = run_once(*quantized, std::vector<Tensor>{stored}, 75);
    ASSERT_TRUE(want) << want.error().summary();
    const auto got = run_onnx(folder->path(), input);
    if (!got) GTEST_SKIP() << "no ONNX Runtime";
    const float step = (*want)[0].type().encoding->scale();
    for (std::int64_t i = 0; i < got->count(); ++i) {
      EXPECT_LE(std::fabs((*want)[0].real(i) - got->real(i)), 2.01 * static_cast<double>(step)) << seed << " " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Bits, QuantizedExport,
                         ::testing::Values(std::pair(8, std::int64_t{13}), std::pair(8, std::int64_t{17}),
                                           std::pair(4, std::int64_t{21})));

}  // namespace
}  // namespace htpipe
