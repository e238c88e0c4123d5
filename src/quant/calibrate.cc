#include "quant/calibrate.h"

#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <optional>
#include <vector>

#include "base/parallel.h"
#include "base/progress.h"
#include "exec/program.h"

namespace htpipe::quant {
namespace {

/// Samples traced at a time: bounds the memory for traces.
constexpr std::int64_t kChunk = 16;

using Traced = std::map<std::string, std::vector<float>>;

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

Status trace_one(const Program& program, Program::Workspace& workspace, const SampleSource& source, std::int64_t sample,
                 Traced& traced) {
  HTPIPE_TRY(const std::vector<Tensor> inputs, source.get(sample));
  HTPIPE_CHECK_OK(check_finite(inputs, program.graph(), sample));
  const Value* broken = nullptr;
  HTPIPE_CHECK_OK(program.run(workspace, inputs, [&](const Value& value, const Tensor& tensor) {
    if (tensor.dtype() != DType::kF32) return;  // indices and masks have no range
    const auto data = tensor.data<float>();
    for (const float element : data) {
      if (!std::isfinite(element) && broken == nullptr) broken = &value;
    }
    traced[value.name].assign(data.begin(), data.end());
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
  std::vector<std::unique_ptr<Program::Workspace>> workspaces(static_cast<std::size_t>(thread_count()));
  Statistics statistics;
  const auto observe = [&statistics](const Value* value) {
    if (value->type.dtype == DType::kF32) statistics[value->name];
  };
  for (const Value* input : graph.inputs()) observe(input);
  for (const auto& node : graph.nodes()) {
    for (const Value* result : node->results) observe(result);
  }
  Progress progress("calibrate", source.count);
  for (std::int64_t begin = 0; begin < source.count; begin += kChunk) {
    const std::int64_t size = std::min(kChunk, source.count - begin);
    std::vector<Traced> traced(static_cast<std::size_t>(size));
    std::vector<std::optional<Error>> errors(static_cast<std::size_t>(size));
    parallel_for(size, [&](std::int64_t item, int worker) {
      auto& workspace = workspaces[static_cast<std::size_t>(worker)];
      if (!workspace) workspace = std::make_unique<Program::Workspace>(program);
      const auto at = static_cast<std::size_t>(item);
      const Status status = trace_one(program, *workspace, source, begin + item, traced[at]);
      if (!status) errors[at] = status.error();
      progress.step();
    });
    for (const auto& error : errors) {
      if (error) return fail(*error);
    }
    std::vector<std::pair<const std::string, Histogram>*> entries;
    for (auto& entry : statistics) entries.push_back(&entry);
    parallel_for(static_cast<std::int64_t>(entries.size()), [&](std::int64_t item, int) {
      auto& [name, histogram] = *entries[static_cast<std::size_t>(item)];
      for (const Traced& sample : traced) histogram.add(sample.at(name));
    });
  }
  return statistics;
}

Ranges choose_ranges(const Statistics& statistics, RangeMethod method, double percentile, int bits) {
  Ranges ranges;
  for (const auto& [name, histogram] : statistics) ranges[name] = choose_range(histogram, method, percentile, bits);
  return ranges;
}

}  // namespace htpipe::quant
