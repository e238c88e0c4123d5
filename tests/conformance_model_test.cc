// The example model, quantised from real images, on the emulator of every chip: every value inside, element by element.
// This is what the project promises: at most one step apart anywhere, and 99.9 % of all elements equal.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "accuracy/metrics.h"
#include "exec/program.h"
#include "export/qnn_lowering.h"
#include "import/pt2/import.h"
#include "ops/registry.h"
#include "passes/driver.h"
#include "qnn/sample_graph_test.h"
#include "quant/quantize.h"
#include "tensor/idx.h"

namespace htpipe {
namespace {

constexpr const char* kModel = HTPIPE_SOURCE_DIR "/examples/fashion_resnet/fashion_resnet.pt2";
const std::filesystem::path kImages = "/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz";

struct Chip {
  const char* name;
  std::uint32_t soc_model;
  int htp_version;
  Precision precision;
};

std::ostream& operator<<(std::ostream& stream, const Chip& chip) { return stream << chip.name; }

class ExampleModel : public testing::TestWithParam<Chip> {};

Tensor image(const Tensor& images, const TensorType& type, std::size_t index) {
  Tensor tensor(type);
  const auto pixels = images.data<std::uint8_t>();
  for (std::size_t i = 0; i < 784; ++i)
    tensor.mutable_data<float>()[i] = static_cast<float>(pixels[index * 784 + i]) / 255.0F;
  return tensor;
}

Result<Graph> quantized_model(const Tensor& images, Precision precision) {
  HTPIPE_TRY(Graph graph, import_pt2(kModel));
  HTPIPE_CHECK_OK(run_passes(graph));
  const TensorType type = graph.inputs()[0]->type;
  const SampleSource source{96, [&](std::int64_t i) -> Result<std::vector<Tensor>> {
                              return std::vector<Tensor>{image(images, type, static_cast<std::size_t>(i))};
                            }};
  HTPIPE_TRY(const quant::Statistics statistics, quant::calibrate(graph, source));
  const quant::Ranges ranges = quant::choose_ranges(statistics, quant::RangeMethod::kMinMax, 100, 8);
  quant::QuantizeOptions options;
  options.default_precision = precision;
  return quant::quantize(graph, ranges, options);
}

TEST_P(ExampleModel, AgreesWithTheEmulatorEverywhere) {
  const auto vendor = qnn::testing::find_vendor();
  if (!vendor && vendor.error().code == Code::kVendorMissing) GTEST_SKIP() << vendor.error().summary();
  ASSERT_TRUE(vendor) << vendor.error().summary();
  if (!std::filesystem::exists(kImages)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  register_all_ops();
  const auto images = read_idx(kImages);
  ASSERT_TRUE(images) << images.error().summary();
  const auto graph = quantized_model(*images, GetParam().precision);
  ASSERT_TRUE(graph) << graph.error().summary();
  const auto spec = lower_to_qnn(*graph);
  ASSERT_TRUE(spec) << spec.error().summary();

  constexpr std::size_t kSamples = 12;
  const Value* input = graph->inputs()[0];
  const TensorType float_type{DType::kF32, input->type.shape, std::nullopt};
  TensorType all_type = input->type;
  all_type.shape[0] = kSamples;
  Tensor all(all_type);
  std::vector<Tensor> samples;
  for (std::size_t i = 0; i < kSamples; ++i) {
    samples.push_back(quant::store_as(image(*images, float_type, 1000 + i), input->type));
    const auto bytes = samples.back().bytes();
    std::copy(bytes.begin(), bytes.end(),
              all.mutable_data<std::byte>().begin() + static_cast<std::ptrdiff_t>(i * bytes.size()));
  }
  qnn::ExecuteRequest request;
  request.graph = &*spec;
  request.expose_natives = true;
  request.device = {GetParam().soc_model, 0, GetParam().name};
  request.inputs = {{input->name, all}};
  const auto report = vendor->execute(request);
  ASSERT_TRUE(report) << report.error().summary();

  const auto program = Program::make(*graph, GetParam().htp_version);
  ASSERT_TRUE(program) << program.error().summary();
  Program::Workspace workspace(*program);
  accuracy::StepAgreement sum;
  std::map<std::string, accuracy::StepAgreement> layers;
  for (std::size_t i = 0; i < kSamples; ++i) {
    ASSERT_TRUE(program->run(workspace, std::vector<Tensor>{samples[i]}, [&](const Value& value, const Tensor& ours) {
      if (value.producer == nullptr) return;
      const auto theirs = report->outputs.find(value.name);
      ASSERT_NE(theirs, report->outputs.end()) << value.name;
      const Tensor one(ours.type(), nullptr, theirs->second.bytes().data() + i * ours.type().size_bytes());
      layers[value.name].add(ours, one);
    }));
  }
  for (const auto& [name, agreement] : layers) {
    sum.merge(agreement);
    EXPECT_EQ(agreement.within_one, agreement.compared) << name << ": up to " << agreement.max_steps << " steps";
  }
  EXPECT_EQ(layers.size(), graph->nodes().size());
  EXPECT_GE(static_cast<double>(sum.equal), 0.999 * static_cast<double>(sum.compared));
  RecordProperty("compared", std::to_string(sum.compared));
  RecordProperty("equal", std::to_string(sum.equal));
  RecordProperty("max_steps", std::to_string(sum.max_steps));
}

std::string test_name(const testing::TestParamInfo<Chip>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Chips, ExampleModel,
    testing::Values(Chip{"sm8350_int8", 30, 68, Precision::kInt8}, Chip{"sm7550_int8", 64, 73, Precision::kInt8},
                    Chip{"sm8650_int8", 57, 75, Precision::kInt8}, Chip{"sm8350_int16", 30, 68, Precision::kInt16},
                    Chip{"sm7550_int16", 64, 73, Precision::kInt16}, Chip{"sm8650_int16", 57, 75, Precision::kInt16}),
    test_name);

}  // namespace
}  // namespace htpipe
