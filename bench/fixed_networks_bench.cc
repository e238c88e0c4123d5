// Fixed-point execution of a network, one image at a time on all cores, against the vendor's emulator (one core, its
// execution alone). bench/fixed_networks_bench.py adds ONNX Runtime and prints the medians.
//
//   fixed_networks_bench MODEL.pt2 int8|int16 QDQ.onnx
//
// writes the quantised model as QDQ ONNX, says "ready", and then answers lines of stdin with a line of seconds:
// "ours" (one image), "emulator" (a few images, seconds of one), "nodes" (a line per node: seconds, operator, name).
#include <fmt/core.h>

#include <cstdio>
#include <iostream>
#include <random>
#include <string>

#include "base/parallel.h"
#include "bench/bench_tools.h"
#include "exec/program.h"
#include "export/onnx/export.h"
#include "export/qnn_lowering.h"
#include "import/pt2/import.h"
#include "ops/registry.h"
#include "passes/driver.h"
#include "pipeline/dataset.h"
#include "qnn/vendor.h"
#include "quant/quantize.h"

namespace htpipe {
namespace {

constexpr std::int64_t kCalibrationImages = 4;
constexpr std::int64_t kEmulatorImages = 2;
constexpr int kHtpVersion = 75;

/// Smooth colours: random values on a coarse grid, drawn out bilinearly.
Tensor image(const TensorType& type, std::uint32_t seed) {
  constexpr std::size_t kGrid = 8;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const bool channels_first = type.shape[1] == 3;
  const auto height = static_cast<std::size_t>(type.shape[channels_first ? 2 : 1]);
  const auto width = static_cast<std::size_t>(type.shape[channels_first ? 3 : 2]);
  Tensor result(type);
  const auto out = result.mutable_data<float>();
  for (std::size_t c = 0; c < 3; ++c) {
    std::vector<float> coarse(kGrid * kGrid);
    for (float& value : coarse) value = normal(random);
    for (std::size_t y = 0; y < height; ++y) {
      for (std::size_t x = 0; x < width; ++x) {
        const float v = static_cast<float>(y) * (kGrid - 1.001F) / static_cast<float>(height);
        const float u = static_cast<float>(x) * (kGrid - 1.001F) / static_cast<float>(width);
        const float* at = coarse.data() + static_cast<std::size_t>(v) * kGrid + static_cast<std::size_t>(u);
        const float fy = v - std::floor(v);
        const float fx = u - std::floor(u);
        const float value =
            (1 - fy) * ((1 - fx) * at[0] + fx * at[1]) + fy * ((1 - fx) * at[kGrid] + fx * at[kGrid + 1]);
        out[channels_first ? (c * height + y) * width + x : (y * width + x) * 3 + c] =
            std::clamp(value + 0.2F * normal(random), -2.2F, 2.4F);
      }
    }
  }
  return result;
}

SampleSource images(const Graph& graph, std::int64_t count) {
  return {count, [type = graph.inputs()[0]->type](std::int64_t i) -> Result<std::vector<Tensor>> {
            return std::vector<Tensor>{image(type, static_cast<std::uint32_t>(i))};
          }};
}

Status print_nodes(const Program& program, Program::Workspace& workspace, const std::vector<Tensor>& inputs) {
  auto begin = std::chrono::steady_clock::now();
  const auto trace = [&](const Value& value, const Tensor&) {
    const auto now = std::chrono::steady_clock::now();
    if (value.producer != nullptr) {
      fmt::print("{:.6f} {} {}\n", std::chrono::duration<double>(now - begin).count(), value.producer->op->name,
                 value.name);
    }
    begin = std::chrono::steady_clock::now();
  };
  HTPIPE_CHECK_OK(program.run(workspace, inputs, trace));
  return {};
}

Result<double> emulator_seconds(const qnn::Vendor& vendor, const Graph& graph, const SampleSource& stored) {
  HTPIPE_TRY(const qnn::GraphSpec spec, lower_to_qnn(graph));
  qnn::ExecuteRequest request;
  request.graph = &spec;
  request.device = {57, kHtpVersion, "snapdragon-8-gen-3"};
  request.workers = 1;
  HTPIPE_TRY(request.inputs[graph.inputs()[0]->name], stack_input(graph, 0, stored));
  HTPIPE_TRY(const qnn::ExecuteReport report, vendor.execute(request));
  for (const qnn::StageTime& stage : report.stages) {
    if (stage.stage == "execute") return stage.ms / 1000 / static_cast<double>(report.samples);
  }
  return fail(Code::kVendorError, "the worker does not say how long the execution took");
}

Status run(const std::string& model, const std::string& precision, const std::string& onnx) {
  register_all_ops();
  HTPIPE_TRY(Graph graph, import_pt2(model));
  HTPIPE_CHECK_OK(run_passes(graph));
  HTPIPE_TRY(const quant::Statistics statistics, quant::calibrate(graph, images(graph, kCalibrationImages)));
  quant::QuantizeOptions options;
  options.default_precision = precision == "int16" ? Precision::kInt16 : Precision::kInt8;
  const int bits = precision == "int16" ? 16 : 8;
  const quant::Ranges ranges = quant::choose_ranges(statistics, quant::RangeMethod::kMinMax, 100, bits);
  HTPIPE_TRY(const Graph quantized, quant::quantize(graph, ranges, options));
  OnnxOptions onnx_options;
  onnx_options.opset = kNewestExportOpset;  // 16 bits need it
  HTPIPE_CHECK_OK(export_onnx(quantized, onnx, onnx_options));
  const SampleSource stored = stored_inputs(quantized, images(graph, kEmulatorImages));
  HTPIPE_TRY(const std::vector<Tensor> inputs, stored.get(0));

  HTPIPE_TRY(const Program program, Program::make(quantized, kHtpVersion));
  Program::Workspace workspace(program, thread_count());
  fmt::print("ready {} threads, arena {:.1f} MB\n", thread_count(), static_cast<double>(program.arena_bytes()) / 1e6);
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line); std::fflush(stdout)) {
    if (line == "ours") {
      Status status;
      const double seconds = bench::seconds_of([&] {
        if (auto outputs = program.run(workspace, inputs); !outputs) status = fail(outputs.error());
      });
      HTPIPE_CHECK_OK(status);
      fmt::print("{:.6f}\n", seconds);
    } else if (line == "nodes") {
      HTPIPE_CHECK_OK(print_nodes(program, workspace, inputs));
      fmt::print("end\n");
    } else if (line == "emulator") {
      HTPIPE_TRY(const qnn::Vendor vendor, qnn::Vendor::find());
      HTPIPE_TRY(const double seconds, emulator_seconds(vendor, quantized, stored));
      fmt::print("{:.6f}\n", seconds);
    } else {
      return fail(Code::kUsage, fmt::format("no command \"{}\"", line));
    }
  }
  return {};
}

}  // namespace
}  // namespace htpipe

int main(int argc, char** argv) {
  if (argc != 4) {
    fmt::print("for bench/fixed_networks_bench.py: fixed_networks_bench MODEL.pt2 int8|int16 QDQ.onnx\n");
    return argc == 1 ? 0 : 2;
  }
  const htpipe::Status status = htpipe::run(argv[1], argv[2], argv[3]);
  if (!status) fmt::print(stderr, "{}\n", status.error().summary());
  return status ? 0 : 1;
}
