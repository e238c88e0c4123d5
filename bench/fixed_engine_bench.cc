// Our fixed-point engine against the vendor's emulator: the same quantised model, the same images, one process.
// Prints the medians of several runs and their ratio; needs Qualcomm's libraries and Debian's dataset-fashion-mnist.
#include <fmt/core.h>

#include <map>
#include <string>
#include <vector>

#include "bench/bench_tools.h"
#include "export/qnn_lowering.h"
#include "import/pt2/import.h"
#include "ops/registry.h"
#include "passes/driver.h"
#include "pipeline/dataset.h"
#include "pipeline/evaluate.h"
#include "qnn/vendor.h"
#include "quant/quantize.h"

namespace htpipe {
namespace {

constexpr int kRuns = 5;
constexpr std::int64_t kImages = 200;

using bench::median;
using bench::seconds_of;

Status run() {
  register_all_ops();
  const std::filesystem::path data = "/usr/share/datasets/fashion-mnist";
  HTPIPE_TRY(Graph graph,
             import_pt2(std::filesystem::path(HTPIPE_SOURCE_DIR) / "examples/fashion_resnet/fashion_resnet.pt2"));
  HTPIPE_CHECK_OK(run_passes(graph));
  DataConfig config;
  config.format = "idx";
  config.scale = 1.0 / 255;
  SampleFiles files{data / "t10k-images-idx3-ubyte.gz", data / "t10k-labels-idx1-ubyte.gz", kImages};
  HTPIPE_TRY(const Dataset images, Dataset::load(config, files, graph));
  HTPIPE_TRY(const quant::Statistics statistics, quant::calibrate(graph, images.floats(64)));
  const quant::Ranges ranges = quant::choose_ranges(statistics, quant::RangeMethod::kMinMax, 100, 8);
  HTPIPE_TRY(const Graph quantized, quant::quantize(graph, ranges, {}));
  const SampleSource stored = stored_inputs(quantized, images.floats(kImages));

  HTPIPE_TRY(const qnn::Vendor vendor, qnn::Vendor::find());
  HTPIPE_TRY(const qnn::GraphSpec spec, lower_to_qnn(quantized));
  qnn::ExecuteRequest request;
  request.graph = &spec;
  request.device = {57, 75, "snapdragon-8-gen-3"};
  HTPIPE_TRY(request.inputs["x"], stack_input(quantized, 0, stored));

  std::vector<double> ours;
  std::vector<double> theirs;
  for (int i = 0; i < kRuns; ++i) {
    Status status;
    ours.push_back(seconds_of([&] {
      if (const auto classes = predict(quantized, 75, stored, ""); !classes) status = fail(classes.error());
    }));
    theirs.push_back(seconds_of([&] {
      if (const auto report = vendor.execute(request); !report) status = fail(report.error());
    }));
    HTPIPE_CHECK_OK(status);
  }
  fmt::print(
      "{} images, medians of {} runs, both on all cores; the emulator's time includes its start and compilation\n",
      kImages, kRuns);
  fmt::print("our engine {:.4f} s, emulator {:.3f} s, ratio {:.1f}\n", median(ours), median(theirs),
             median(theirs) / median(ours));
  return {};
}

}  // namespace
}  // namespace htpipe

int main() {
  const htpipe::Status status = htpipe::run();
  if (!status) fmt::print(stderr, "{}\n", status.error().summary());
  return status ? 0 : 1;
}
