// Simulated quantisation against plain float: every value of the graph and every weight rounded to 8 bits.
// Usage: simulated_bench MODEL...; medians of runs that take turns, on HTPIPE_THREADS threads.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "bench/bench_tools.h"
#include "exec/program.h"
#include "import/import_model.h"
#include "ops/registry.h"
#include "passes/driver.h"

namespace htpipe {
namespace {

constexpr int kRuns = 21;

Tensor input_of(const TensorType& type) {
  if (type.dtype != DType::kF32) return filled(type, 1);
  Tensor tensor(type);
  std::uint32_t state = 1;
  for (float& x : tensor.mutable_data<float>()) {
    state = state * 1664525 + 1013904223;
    x = static_cast<float>(state >> 8) / 8388608.0F - 1;
  }
  return tensor;
}

/// Values by their range in one run, weights by their largest element.
Result<ProgramOptions> eight_bits(const Graph& graph, const std::vector<Tensor>& inputs) {
  ProgramOptions options;
  const auto add = [&options](const std::string& name, const Tensor& tensor) {
    if (tensor.dtype() != DType::kF32 || tensor.count() == 0) return;
    const auto [low, high] = std::minmax_element(tensor.data<float>().begin(), tensor.data<float>().end());
    const float scale = std::max(std::max(*high, 0.0F) - std::min(*low, 0.0F), 1e-6F) / 255;
    if (!std::isfinite(scale)) return;  // masks with infinities
    const auto zero = static_cast<std::int32_t>(std::lround(-std::min(*low, 0.0F) / scale));
    options.simulated[name] = {DType::kU8, Encoding::per_tensor(scale, zero, 8)};
  };
  HTPIPE_CHECK_OK(
      run_once(graph, inputs, 0, [&](const Value& value, const Tensor& tensor) { add(value.name, tensor); }));
  for (const auto& value : graph.values()) {
    if (value->is_constant()) add(value->name, value->constant);
  }
  return options;
}

Status measure(const std::string& path) {
  HTPIPE_TRY(ImportedModel model, import_model(path));
  HTPIPE_CHECK_OK(run_passes(model.graph));
  std::vector<Tensor> inputs;
  for (const Value* input : model.graph.inputs()) inputs.push_back(input_of(input->type));
  HTPIPE_TRY(const ProgramOptions options, eight_bits(model.graph, inputs));
  HTPIPE_TRY(const Program plain, Program::make(model.graph, 0));
  HTPIPE_TRY(const Program simulated, Program::make(model.graph, options));
  Program::Workspace plain_space(plain, thread_count());
  Program::Workspace simulated_space(simulated, thread_count());
  std::vector<double> plain_times;
  std::vector<double> simulated_times;
  for (int i = 0; i < kRuns; ++i) {
    plain_times.push_back(bench::seconds_of([&] { (void)plain.run(plain_space, inputs); }));
    simulated_times.push_back(bench::seconds_of([&] { (void)simulated.run(simulated_space, inputs); }));
  }
  const double a = bench::median(plain_times);
  const double b = bench::median(simulated_times);
  fmt::print("{:<40} float {:8.3f} ms, simulated {:8.3f} ms, ratio {:.2f}; {} values rounded, {} threads\n", path,
             a * 1e3, b * 1e3, b / a, options.simulated.size(), thread_count());
  return {};
}

}  // namespace
}  // namespace htpipe

int main(int argc, char** argv) {
  htpipe::register_all_ops();
  std::vector<std::string> models(argv + 1, argv + argc);
  if (models.empty()) models.emplace_back(HTPIPE_SOURCE_DIR "/examples/fashion_resnet/fashion_resnet.pt2");
  for (const std::string& model : models) {
    if (const htpipe::Status status = htpipe::measure(model); !status) {
      fmt::print(stderr, "{}: {}\n", model, status.error().summary());
      return 1;
    }
  }
  return 0;
}
