#include "quant/calibrate.h"

#include <fmt/core.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "exec/program.h"

namespace htpipe::quant {
namespace {

Status check_finite(const std::vector<Tensor>& inputs, const Graph& graph, std::int64_t sample) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].dtype() != DType::kF32) continue;
    for (const float value : inputs[i].data<float>()) {
      if (!std::isfinite(value)) {
        return fail(Error(Code::kDataNotFinite, fmt::format("sample {} holds a NaN or an infinity", sample))
                        .at_node(graph.inputs()[i]->name));
      }
    }
  }
  return {};
}

/// What one thread works with.
struct Worker {
  explicit Worker(const Program& program) : workspace(program) {}
  Program::Workspace workspace;
  Statistics statistics;
};

/// Adds one sample to the statistics of a thread; after an error they are worth nothing.
Status observe(const Program& program, Worker& worker, const SampleSource& source, std::int64_t sample) {
  HTPIPE_TRY(const std::vector<Tensor> inputs, source.get(sample));
  HTPIPE_CHECK_OK(check_finite(inputs, program.graph(), sample));
  const Value* broken = nullptr;
  HTPIPE_CHECK_OK(program.run(worker.workspace, inputs, [&](const Value& value, const Tensor& tensor) {
    if (tensor.dtype() != DType::kF32) return;  // indices and masks have no range
    const auto data = tensor.data<float>();
    // Scores that a mask takes to -infinity are none, as long as they stay inside.
    const bool may_be_masked = !program.graph().is_output(&value);
    for (const float element : data) {
      const bool masked = may_be_masked && element == -std::numeric_limits<float>::infinity();
      if (!std::isfinite(element) && !masked && broken == nullptr) broken = &value;
    }
    if (broken == nullptr) worker.statistics[value.name].add(data);
  }));
  if (broken != nullptr) {
    return fail(Error(Code::kDataNotFinite, fmt::format("the model gives a NaN or an infinity for sample {}", sample))
                    .at_node(broken->name));
  }
  return {};
}

}  // namespace

Result<Statistics> calibrate(const Graph& graph, const SampleSource& source) {
  HTPIPE_TRY(const Program program, Program::make(graph, 0));
  std::vector<std::unique_ptr<Worker>> workers(static_cast<std::size_t>(thread_count()));
  std::optional<Error> failure;
  std::atomic<std::int64_t> failed_sample = source.count;
  std::mutex mutex;
  Progress progress("calibrate", source.count);
  parallel_for(source.count, [&](std::int64_t sample, int number) {
    if (sample > failed_sample) return;  // the first sample that fails is told, whatever the order of the threads
    auto& worker = workers[static_cast<std::size_t>(number)];
    if (!worker) worker = std::make_unique<Worker>(program);
    Status status =
        interrupted() ? fail(Code::kInterrupted, "during calibration") : observe(program, *worker, source, sample);
    if (!status) {
      const std::lock_guard lock(mutex);
      if (sample < failed_sample) {
        failed_sample = sample;
        failure = std::move(status.error());
      }
    }
    progress.step();
  });
  if (failure) return fail(std::move(*failure));
  Statistics statistics;
  const auto add = [&statistics](const Value* value) {
    if (value->type.dtype == DType::kF32) statistics[value->name];
  };
  for (const Value* input : graph.inputs()) add(input);
  for (const auto& node : graph.nodes()) {
    for (const Value* result : node->results) add(result);
  }
  for (const auto& worker : workers) {
    if (!worker) continue;
    for (const auto& [name, histogram] : worker->statistics) statistics[name].merge(histogram);
  }
  return statistics;
}

Ranges choose_ranges(const Statistics& statistics, RangeMethod method, double percentile, int bits) {
  Ranges ranges;
  for (const auto& [name, histogram] : statistics) ranges[name] = choose_range(histogram, method, percentile, bits);
  return ranges;
}

}  // namespace htpipe::quant
