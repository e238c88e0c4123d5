// The vendor room against Qualcomm's real libraries: verdicts, artifacts, reading back, execution.
#include "qnn/vendor.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/hash.h"
#include "qnn/safe_names.h"
#include "qnn/sample_graph_test.h"

namespace htpipe::qnn {
namespace {

namespace fs = std::filesystem;
using testing::conv_graph;
using testing::conv_inputs;
using testing::find_vendor;
using testing::matmul_graph;

const std::vector<DeviceChoice> kTargets = {{57, 75, "sm8650"}, {30, 68, "sm8350"}, {64, 73, "sm7550"}};

class VendorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto found = find_vendor();
    if (!found && found.error().code == Code::kVendorMissing) GTEST_SKIP() << found.error().summary();
    ASSERT_TRUE(found) << found.error().summary();
    vendor_ = std::make_unique<Vendor>(std::move(*found));
    auto folder = TemporaryFolder::create();
    ASSERT_TRUE(folder);
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return folder_->path() / name; }
  std::unique_ptr<Vendor> vendor_;
  std::unique_ptr<TemporaryFolder> folder_;
};

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.bytes().size() == b.bytes().size() && std::memcmp(a.bytes().data(), b.bytes().data(), a.bytes().size()) == 0;
}

TEST_F(VendorTest, VersionsAreThoseThatAreSupported) {
  const auto versions = vendor_->versions();
  ASSERT_TRUE(versions) << versions.error().summary();
  EXPECT_EQ(versions->build_id, kSupportedBuildId);
  ASSERT_EQ(versions->libraries.size(), 3U);
  EXPECT_EQ(versions->libraries[0].provider, "HTP_QTI_AISW");
  EXPECT_EQ(versions->libraries[1].provider, "IR_QTI_AISW");
  EXPECT_EQ(versions->libraries[2].provider, "SYSTEM_QTI_AISW");
}

TEST_F(VendorTest, ValidatesOnEveryTarget) {
  GraphSpec graph = conv_graph();
  for (const DeviceChoice& target : kTargets) {
    const auto verdicts = vendor_->validate(graph, target.soc_model);
    ASSERT_TRUE(verdicts) << verdicts.error().summary();
    ASSERT_EQ(verdicts->size(), graph.ops.size());
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
      EXPECT_EQ((*verdicts)[i].op, graph.ops[i].name);
      EXPECT_EQ((*verdicts)[i].kind, OpVerdict::Kind::kSupported) << (*verdicts)[i].reason;
    }
  }
}

TEST_F(VendorTest, RefusalsHaveACodeAndAReason) {
  GraphSpec graph = conv_graph();
  graph.ops[1].type = "NoSuchOperator";
  graph.tensors[5].type.shape = {1, 500};  // Reshape of 512 elements
  const auto verdicts = vendor_->validate(graph, 57);
  ASSERT_TRUE(verdicts) << verdicts.error().summary();
  EXPECT_EQ((*verdicts)[0].kind, OpVerdict::Kind::kSupported);
  EXPECT_EQ((*verdicts)[1].kind, OpVerdict::Kind::kRefused);
  EXPECT_EQ((*verdicts)[1].code, 4005U);
  EXPECT_EQ((*verdicts)[2].kind, OpVerdict::Kind::kRefused);
  EXPECT_EQ((*verdicts)[2].code, 3110U);
  EXPECT_FALSE((*verdicts)[2].reason.empty());
}

TEST_F(VendorTest, VerdictsDependOnTheChip) {
  // 16-bit activations with 16-bit weights need v73.
  const Encoding activation = Encoding::per_tensor(0.001F, 32768, 16);
  GraphSpec graph = matmul_graph(true);
  for (const std::size_t i : {0U, 1U, 3U, 4U})
    graph.tensors[i].type = {DType::kU16, graph.tensors[i].type.shape, activation};
  graph.tensors[2] =
      testing::fixed("w", testing::noise_tensor<std::int16_t>(
                              {DType::kI16, {1, 64, 32}, Encoding::per_tensor(0.0001F, 0, 16)}, -9000, 9000, 6));
  const auto v68 = vendor_->validate(graph, 30);
  const auto v75 = vendor_->validate(graph, 57);
  ASSERT_TRUE(v68 && v75);
  EXPECT_EQ((*v68)[1].kind, OpVerdict::Kind::kRefused);
  EXPECT_EQ((*v75)[1].kind, OpVerdict::Kind::kSupported) << (*v75)[1].reason;
}

TEST_F(VendorTest, DlcIsReproducibleAndReadsBackAsTheSpec) {
  const GraphSpec graph = conv_graph();
  const DlcOptions options{"{\"model\": \"test\"}\n"};
  const auto first = vendor_->compile_dlc(graph, path("a.dlc"), options);
  const auto second = vendor_->compile_dlc(graph, path("b.dlc"), options);
  ASSERT_TRUE(first) << first.error().summary();
  ASSERT_TRUE(second) << second.error().summary();
  EXPECT_EQ(first->sha256, second->sha256);
  EXPECT_EQ(first->sha256, *sha256_file(path("a.dlc")));
  EXPECT_EQ(first->size_bytes, fs::file_size(path("a.dlc")));
  EXPECT_EQ(fs::status(path("a.dlc")).permissions(), fs::perms(0644));

  const auto info = vendor_->inspect_dlc(path("a.dlc"));
  ASSERT_TRUE(info) << info.error().summary();
  EXPECT_EQ(info->provenance, options.provenance);
  EXPECT_TRUE(info->notes.empty());
  ASSERT_EQ(info->graphs.size(), 1U);
  const GraphSpec& read = info->graphs.front();
  EXPECT_EQ(read.tensors.size(), graph.tensors.size());
  for (const TensorSpec& want : graph.tensors) {
    const TensorSpec* got = read.find(safe_name(want.name));
    ASSERT_NE(got, nullptr) << want.name;
    EXPECT_EQ(got->role, want.role) << want.name;
    EXPECT_EQ(got->type, want.type) << want.name;
    EXPECT_TRUE(want.role != TensorRole::kStatic || same_bytes(got->data, want.data)) << want.name;
  }
  ASSERT_EQ(read.ops.size(), graph.ops.size());
  for (std::size_t i = 0; i < graph.ops.size(); ++i) {
    EXPECT_EQ(read.ops[i].name, graph.ops[i].name);
    // The writer folds Relu into its general form.
    EXPECT_EQ(read.ops[i].type, graph.ops[i].type == "Relu" ? "ElementWiseNeuron" : graph.ops[i].type);
    ASSERT_EQ(read.ops[i].inputs.size(), graph.ops[i].inputs.size());
    for (std::size_t k = 0; k < graph.ops[i].inputs.size(); ++k) {
      EXPECT_EQ(read.ops[i].inputs[k], safe_name(graph.ops[i].inputs[k]));
    }
    EXPECT_EQ(read.ops[i].outputs, graph.ops[i].outputs);
  }
  const auto& params = read.ops[0].params;
  const auto pads =
      std::find_if(params.begin(), params.end(), [](const auto& param) { return param.name == "pad_amount"; });
  ASSERT_NE(pads, params.end());
  EXPECT_TRUE(same_bytes(std::get<Tensor>(pads->value), std::get<Tensor>(graph.ops[0].params[1].value)));
}

TEST_F(VendorTest, PythonReadsTheDlcAsAnOrdinaryZip) {
  ASSERT_TRUE(vendor_->compile_dlc(conv_graph(), path("a.dlc"), {"{}"}));
  const std::string check = fmt::format(
      "python3 -c \"import zipfile, json; z = zipfile.ZipFile('{}'); assert z.testzip() is None; "
      "assert z.read('htpipe.provenance.json') == b'{{}}'; "
      "assert '1980' in json.loads(z.read('dlc.metadata2.3.0'))['header']['timestamp']\"",
      path("a.dlc").string());
  if (std::system("python3 -c pass") != 0) GTEST_SKIP() << "no python3";
  EXPECT_EQ(std::system(check.c_str()), 0);
}

TEST_F(VendorTest, FourBitWeightsSurviveTheDlc) {
  GraphSpec graph = matmul_graph(true);
  graph.tensors[2] = testing::fixed(
      "w",
      testing::noise_tensor<std::int8_t>({DType::kI8, {1, 64, 32}, testing::per_channel(32, 0.05F, 2, 4)}, -8, 7, 9));
  ASSERT_TRUE(vendor_->compile_dlc(graph, path("a.dlc")));
  const auto info = vendor_->inspect_dlc(path("a.dlc"));
  ASSERT_TRUE(info) << info.error().summary();
  EXPECT_EQ(info->graphs.front().find("w")->type, graph.tensors[2].type);
}

TEST_F(VendorTest, ContextBinariesAreForTheirChipAndReproducible) {
  const GraphSpec graph = conv_graph();
  for (const DeviceChoice& target : kTargets) {
    const auto report = vendor_->compile_context(graph, target, path(target.name + ".bin"));
    const auto again = vendor_->compile_context(graph, target, path(target.name + "2.bin"));
    ASSERT_TRUE(report) << report.error().summary();
    ASSERT_TRUE(again) << again.error().summary();
    EXPECT_EQ(report->sha256, again->sha256) << target.name;
    EXPECT_TRUE(report->log.empty()) << report->log.front();
    const auto info = vendor_->inspect_context(report->path);
    ASSERT_TRUE(info) << info.error().summary();
    EXPECT_EQ(info->soc_model, target.soc_model);
    EXPECT_EQ(info->dsp_arch, target.dsp_arch);
    EXPECT_EQ(info->build_id, kSupportedBuildId);
    EXPECT_EQ(info->file_bytes, report->size_bytes);
    ASSERT_EQ(info->graphs.size(), 1U);
    const ContextGraphInfo& read = info->graphs.front();
    EXPECT_EQ(read.name, graph.name);
    EXPECT_EQ(read.optimization_level, 3U);
    EXPECT_EQ(read.vtcm_bytes, 4U << 20);
    EXPECT_GT(read.const_bytes, 0U);
    ASSERT_EQ(read.inputs.size(), 1U);
    ASSERT_EQ(read.outputs.size(), 1U);
    EXPECT_EQ(read.inputs.front().type, graph.find("x")->type);
    EXPECT_EQ(read.outputs.front().type, graph.find("y")->type);
  }
}

TEST_F(VendorTest, CompilerOptionsReachTheBinary) {
  ContextOptions options;
  options.optimization_level = 1;
  options.vtcm_mb = 2;
  options.custom = {{"hvx_threads", 2}, {"dlbc", 1}};
  ASSERT_TRUE(vendor_->compile_context(conv_graph(), kTargets[0], path("a.bin"), options));
  const auto info = vendor_->inspect_context(path("a.bin"));
  ASSERT_TRUE(info);
  EXPECT_EQ(info->graphs.front().optimization_level, 1U);
  EXPECT_EQ(info->graphs.front().vtcm_bytes, 2U << 20);
  EXPECT_EQ(info->graphs.front().hvx_threads, 2U);
  EXPECT_TRUE(info->graphs.front().dlbc);
}

TEST_F(VendorTest, AllWaysToExecuteAgree) {
  const GraphSpec graph = conv_graph();
  ASSERT_TRUE(vendor_->compile_dlc(graph, path("a.dlc")));
  for (const DeviceChoice& target : kTargets) {
    ASSERT_TRUE(vendor_->compile_context(graph, target, path("a.bin")));
    ASSERT_TRUE(vendor_->compile_context(path("a.dlc"), target, path("from_dlc.bin")));
    ExecuteRequest direct;
    direct.graph = &graph;
    direct.device = target;
    direct.inputs = conv_inputs(3);
    ExecuteRequest debug = direct;
    debug.expose_natives = true;
    ExecuteRequest dlc = direct;
    dlc.graph = nullptr;
    dlc.dlc = path("a.dlc");
    ExecuteRequest dlc_debug = dlc;
    dlc_debug.expose_natives = true;
    ExecuteRequest binary = direct;
    binary.graph = nullptr;
    binary.context_binary = path("a.bin");
    ExecuteRequest from_dlc = binary;
    from_dlc.context_binary = path("from_dlc.bin");

    const auto want = vendor_->execute(direct);
    ASSERT_TRUE(want) << want.error().summary();
    ASSERT_EQ(want->outputs.size(), 1U);
    EXPECT_EQ(want->outputs.at("y").shape(), (Shape{3, 10}));
    for (const ExecuteRequest* request : {&debug, &dlc, &dlc_debug, &binary, &from_dlc}) {
      const auto got = vendor_->execute(*request);
      ASSERT_TRUE(got) << got.error().summary();
      EXPECT_EQ(got->samples, 3);
      EXPECT_TRUE(same_bytes(got->outputs.at("y"), want->outputs.at("y"))) << target.name;
      EXPECT_EQ(got->outputs.size(), request->expose_natives ? 4U : 1U);
    }
  }
}

TEST_F(VendorTest, NumberOfWorkersDoesNotChangeTheOutputs) {
  const GraphSpec graph = conv_graph();
  ExecuteRequest request;
  request.graph = &graph;
  request.expose_natives = true;
  request.device = kTargets[1];
  request.inputs = conv_inputs(11);
  request.workers = 1;
  const auto one = vendor_->execute(request);
  std::vector<std::int64_t> progress;
  request.progress = [&progress](std::int64_t done, std::int64_t) { progress.push_back(done); };
  request.workers = 3;
  const auto three = vendor_->execute(request);
  ASSERT_TRUE(one && three);
  EXPECT_EQ(three->samples, 11);
  for (const auto& [name, tensor] : one->outputs) EXPECT_TRUE(same_bytes(three->outputs.at(name), tensor)) << name;
  EXPECT_EQ(progress.back(), 11);
  EXPECT_LE(*std::max_element(progress.begin(), progress.end()), 11);
}

/// conv1 of conv_graph in double precision, as stored integers of conv_out.
std::vector<double> convolution(const GraphSpec& graph, const Tensor& x, std::int64_t samples) {
  const Tensor& weight = graph.find("conv.weight")->data;
  const Tensor& bias = graph.find("conv.bias")->data;
  const Encoding& out = *graph.find("conv_out")->type.encoding;
  std::vector<double> result;
  for (std::int64_t pixel = 0; pixel < samples * 64; ++pixel) {
    const std::int64_t sample = pixel / 64;
    const std::int64_t row = pixel % 64 / 8;
    const std::int64_t column = pixel % 8;
    for (std::int64_t channel = 0; channel < 8; ++channel) {
      double sum = bias.real(channel);
      for (std::int64_t tap = 0; tap < 27; ++tap) {
        const std::int64_t at_row = row + tap / 9 - 1;
        const std::int64_t at_column = column + tap / 3 % 3 - 1;
        if (at_row < 0 || at_row > 7 || at_column < 0 || at_column > 7) continue;
        sum += x.real(((sample * 8 + at_row) * 8 + at_column) * 3 + tap % 3) * weight.real(tap * 8 + channel);
      }
      const double stored = sum / static_cast<double>(out.scale()) + out.zero_point();
      result.push_back(std::min(255.0, std::max(0.0, stored)));
    }
  }
  return result;
}

TEST_F(VendorTest, EmulatorComputesTheConvolutionThatWasMeant) {
  const GraphSpec graph = conv_graph();
  ExecuteRequest request;
  request.graph = &graph;
  request.expose_natives = true;
  request.device = kTargets[0];
  request.inputs = conv_inputs(4);
  std::vector<std::int64_t> progress;
  request.progress = [&progress](std::int64_t done, std::int64_t total) {
    EXPECT_EQ(total, 4);
    progress.push_back(done);
  };
  const auto report = vendor_->execute(request);
  ASSERT_TRUE(report) << report.error().summary();
  EXPECT_EQ(progress, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  const std::vector<double> want = convolution(graph, request.inputs.at("x"), 4);
  const auto got = report->outputs.at("conv_out").data<std::uint8_t>();
  ASSERT_EQ(got.size(), want.size());
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) worst = std::max(worst, std::abs(want[i] - got[i]));
  EXPECT_LT(worst, 0.7);  // half a step, and the chip's own rounding of the requantisation factor
  EXPECT_GT(worst, 0.4);  // the data is rich enough to show rounding at all
}

}  // namespace
}  // namespace htpipe::qnn
