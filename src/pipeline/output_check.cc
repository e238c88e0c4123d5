#include "pipeline/output_check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <utility>

#include "base/parallel.h"
#include "exec/program.h"
#include "pipeline/execute.h"
#include "pipeline/input_convert.h"

namespace htpipe {
namespace {

double difference(std::span<const float> wanted, std::span<const float> found) {
  if (wanted.size() != found.size()) return std::numeric_limits<double>::infinity();
  double largest = 1;
  double worst = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (std::isfinite(wanted[i])) largest = std::max(largest, std::abs(static_cast<double>(wanted[i])));
    if (wanted[i] == found[i] || (std::isnan(wanted[i]) && std::isnan(found[i]))) continue;
    if (!std::isfinite(wanted[i]) || !std::isfinite(found[i])) return std::numeric_limits<double>::infinity();
    worst = std::max(worst, std::abs(static_cast<double>(wanted[i]) - static_cast<double>(found[i])));
  }
  return worst / largest;
}

Result<Tensor> made_up(const Port& port, std::mt19937_64& random) {
  Tensor reals({DType::kF32, port.type.shape, std::nullopt});
  for (float& value : reals.mutable_data<float>()) {
    const auto bits = static_cast<double>(random() >> 40);  // 24 of them
    value = static_cast<float>(bits / (1 << 23) - 1);
  }
  if (!is_float(port.type.dtype)) {
    for (float& value : reals.mutable_data<float>()) value = value < 0 ? 0.0F : 1.0F;
  }
  return convert_input(reals, port);
}

}  // namespace

Result<OutputValues> outputs_of(const Graph& graph, const SampleSource& samples) {
  HTPIPE_TRY(const Program program, Program::make(graph, 0));
  Program::Workspace workspace(program, thread_count());
  OutputValues outputs;
  for (std::int64_t i = 0; i < samples.count; ++i) {
    HTPIPE_TRY(const std::vector<Tensor> inputs, samples.get(i));
    HTPIPE_TRY(const std::vector<Tensor> results, program.run(workspace, inputs));
    for (const Tensor& result : results) outputs.push_back(to_floats(result));
  }
  return outputs;
}

double largest_difference(const OutputValues& wanted, const OutputValues& found) {
  double worst = wanted.size() == found.size() ? 0 : std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(wanted.size(), found.size()); ++i) {
    worst = std::max(worst, difference(wanted[i], found[i]));
  }
  return worst;
}

Status same_outputs(const Graph& graph, const OutputValues& wanted, const OutputValues& found, double tolerance) {
  std::size_t worst = 0;
  double by = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double apart = i < found.size() ? difference(wanted[i], found[i]) : std::numeric_limits<double>::infinity();
    if (apart > by) {
      by = apart;
      worst = i;
    }
  }
  if (by <= tolerance) return {};
  const std::size_t outputs = graph.outputs().size();
  return fail(Code::kPassChangedResult,
              fmt::format("output {} of sample {} differs by {:.3g} of its largest value (or of 1), allowed is {:.3g}",
                          graph.outputs()[worst % outputs]->name, worst / outputs, by, tolerance));
}

SampleSource made_up_samples(const Graph& graph, std::int64_t count) {
  return {count, [ports = ports_of(graph.inputs())](std::int64_t index) -> Result<std::vector<Tensor>> {
            std::mt19937_64 random(static_cast<std::uint64_t>(index) + 1);
            std::vector<Tensor> tensors;
            for (const Port& port : ports) {
              HTPIPE_TRY(Tensor tensor, made_up(port, random));
              tensors.push_back(std::move(tensor));
            }
            return tensors;
          }};
}

SampleSource nudged_samples(SampleSource samples) {
  const std::int64_t count = samples.count;
  return {count, [samples = std::move(samples)](std::int64_t index) -> Result<std::vector<Tensor>> {
            std::mt19937_64 random(static_cast<std::uint64_t>(index) + 1);
            HTPIPE_TRY(std::vector<Tensor> tensors, samples.get(index));
            for (Tensor& tensor : tensors) {
              if (tensor.dtype() != DType::kF32) continue;
              Tensor moved(tensor.type());
              const auto from = tensor.data<float>();
              const auto to = moved.mutable_data<float>();
              for (std::size_t i = 0; i < from.size(); ++i) {
                const float side = (random() & 1U) != 0 ? 1.0F : -1.0F;
                to[i] = std::nextafter(from[i], side * std::numeric_limits<float>::infinity());
              }
              tensor = std::move(moved);
            }
            return tensors;
          }};
}

}  // namespace htpipe
