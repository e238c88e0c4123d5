#include "pipeline/execute.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "exec/program.h"
#include "export/qnn_lowering.h"
#include "pipeline/session.h"

namespace htpipe {
namespace {

/// Bytes of inputs and outputs of one batch on the emulator.
constexpr std::size_t kBatchBytes = std::size_t{256} << 20;

/// The sinks that get something, each once.
std::set<ValueSink*> sinks_of(const std::vector<Wanted>& wanted) {
  std::set<ValueSink*> sinks;
  for (const Wanted& want : wanted) sinks.insert(want.sink);
  return sinks;
}

/// All samples of a batch behind one another, by input.
std::map<std::string, Tensor> stacked(const std::vector<std::vector<Tensor>>& batch, const std::vector<Port>& inputs) {
  std::map<std::string, Tensor> result;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    TensorType type = inputs[i].type;
    if (type.shape.empty()) type.shape.push_back(1);
    type.shape.front() *= static_cast<std::int64_t>(batch.size());
    Tensor all(type);
    std::byte* out = all.mutable_data<std::byte>().data();
    for (const std::vector<Tensor>& sample : batch) {
      const Bytes bytes = sample[i].bytes();
      if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
      out += bytes.size();
    }
    result[inputs[i].name] = std::move(all);
  }
  return result;
}

double compile_ms(const qnn::ExecuteReport& report) {
  double sum = 0;
  for (const qnn::StageTime& stage : report.stages) sum += stage.stage == "execute" ? 0 : stage.ms;
  return sum;
}

double execute_ms(const qnn::ExecuteReport& report) {
  double sum = 0;
  for (const qnn::StageTime& stage : report.stages) sum += stage.stage == "execute" ? stage.ms : 0;
  return sum;
}

/// Sample `index` of an output of the vendor's, in the port's type.
Result<Tensor> sample_of(const qnn::ExecuteReport& report, const Port& port, std::int64_t index) {
  const auto at = report.outputs.find(port.name);
  if (at == report.outputs.end()) {
    return fail(Error(Code::kVendorMismatch, "the emulator gives no such value").at_node(port.name));
  }
  const Tensor& all = at->second;
  if (all.dtype() != port.type.dtype || all.count() != report.samples * port.type.count()) {
    return fail(Error(Code::kVendorMismatch, fmt::format("the emulator gives {}, the graph says {}",
                                                         to_string(all.type()), to_string(port.type)))
                    .at_node(port.name));
  }
  const std::byte* data = all.bytes().data() + static_cast<std::size_t>(index) * port.type.size_bytes();
  return Tensor(port.type, nullptr, data);
}

}  // namespace

double ExecutionTimes::median_image_ms() const {
  if (image_ms.empty()) return 0;
  std::vector<double> sorted = image_ms;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

qnn::DeviceChoice device_of(const Target& target) {
  return {target.soc_model, static_cast<std::uint32_t>(target.htp_version), target.id};
}

std::vector<Port> ports_of(const std::vector<Value*>& values) {
  std::vector<Port> ports;
  for (const Value* value : values) ports.push_back({value->name, value->type});
  return ports;
}

Result<ExecutionTimes> execute_ours(const Graph& graph, int htp_version, const SampleSource& samples,
                                    const std::vector<Wanted>& wanted) {
  ExecutionTimes times;
  const double begin = now_ms();
  HTPIPE_TRY(const Program program, Program::make(graph, htp_version));
  Program::Workspace workspace(program, thread_count());
  times.prepare_ms = now_ms() - begin;
  times.activation_bytes = program.arena_bytes();
  times.scratch_bytes = program.scratch_bytes(thread_count());

  std::map<const Value*, std::vector<const Wanted*>> takers;
  for (const Wanted& want : wanted) takers[graph.find_value(want.port.name)].push_back(&want);
  const std::set<ValueSink*> sinks = sinks_of(wanted);
  std::optional<Error> failure;
  double delivery_ms = 0;  // does not count as execution
  const Trace deliver = [&](const Value& value, const Tensor& tensor) {
    const auto at = takers.find(&value);
    if (at == takers.end() || failure) return;
    const double start = now_ms();
    for (const Wanted* want : at->second) {
      if (auto status = want->sink->add(want->index, tensor); !status) failure = std::move(status.error());
    }
    delivery_ms += now_ms() - start;
  };
  Progress progress("execute", samples.count);
  for (std::int64_t i = 0; i < samples.count; ++i) {
    if (interrupted()) return fail(Code::kInterrupted, fmt::format("after {} of {} samples", i, samples.count));
    HTPIPE_TRY(const std::vector<Tensor> inputs, samples.get(i));
    const double start = now_ms();
    delivery_ms = 0;
    HTPIPE_CHECK_OK(program.run(workspace, inputs, deliver));
    times.image_ms.push_back(now_ms() - start - delivery_ms);
    for (const auto& [value, list] : takers) {
      if (value->is_constant()) deliver(*value, value->constant);
    }
    if (failure) return fail(std::move(*failure));
    for (ValueSink* sink : sinks) HTPIPE_CHECK_OK(sink->end_sample());
    progress.step();
  }
  return times;
}

Result<ExecutionTimes> execute_emulator(const qnn::Vendor& vendor, qnn::ExecuteRequest request,
                                        const std::vector<Port>& inputs, const SampleSource& samples,
                                        const std::vector<Wanted>& wanted) {
  ExecutionTimes times;
  std::size_t sample_bytes = 1;
  for (const Port& port : inputs) sample_bytes += port.type.size_bytes();
  for (const Wanted& want : wanted) sample_bytes += want.port.type.size_bytes();
  const auto batch_size = static_cast<std::int64_t>(std::max<std::size_t>(kBatchBytes / sample_bytes, 1));
  std::map<std::string, std::size_t> input_of;
  for (std::size_t i = 0; i < inputs.size(); ++i) input_of[inputs[i].name] = i;
  const std::set<ValueSink*> sinks = sinks_of(wanted);
  Progress progress("execute on the emulator", samples.count);
  for (std::int64_t first = 0; first < samples.count; first += batch_size) {
    if (interrupted()) return fail(Code::kInterrupted, fmt::format("after {} of {} samples", first, samples.count));
    std::vector<std::vector<Tensor>> batch;
    for (std::int64_t i = first; i < std::min(first + batch_size, samples.count); ++i) {
      HTPIPE_TRY(std::vector<Tensor> sample, samples.get(i));
      batch.push_back(std::move(sample));
    }
    request.inputs = stacked(batch, inputs);
    std::int64_t shown = 0;
    request.progress = [&](std::int64_t done, std::int64_t) {
      if (done > shown) progress.step(done - shown);
      shown = std::max(shown, done);
    };
    HTPIPE_TRY(const qnn::ExecuteReport report, vendor.execute(request));
    times.prepare_ms += compile_ms(report);
    times.image_ms.insert(times.image_ms.end(), batch.size(), execute_ms(report) / static_cast<double>(batch.size()));
    for (std::size_t i = 0; i < batch.size(); ++i) {
      for (const Wanted& want : wanted) {
        if (const auto at = input_of.find(want.port.name); at != input_of.end()) {
          HTPIPE_CHECK_OK(want.sink->add(want.index, batch[i][at->second]));
          continue;
        }
        HTPIPE_TRY(const Tensor value, sample_of(report, want.port, static_cast<std::int64_t>(i)));
        HTPIPE_CHECK_OK(want.sink->add(want.index, value));
      }
      for (ValueSink* sink : sinks) HTPIPE_CHECK_OK(sink->end_sample());
    }
  }
  return times;
}

Result<ExecutionTimes> execute_on_chip(const Graph* graph, const std::filesystem::path& file, const Target& target,
                                       const std::vector<Port>& inputs, const std::vector<Port>& outputs,
                                       const SampleSource& samples, const std::vector<Wanted>& wanted) {
  qnn::VendorOptions options;
  options.cancelled = interrupted;
  HTPIPE_TRY(const qnn::Vendor vendor, qnn::Vendor::find(options));
  qnn::ExecuteRequest request;
  request.device = device_of(target);
  qnn::GraphSpec spec;
  if (graph != nullptr) {
    HTPIPE_TRY(spec, lower_to_qnn(*graph));
    request.graph = &spec;
  } else if (file.extension() == ".bin") {
    request.context_binary = file;
  } else {
    request.dlc = file;
  }
  request.expose_natives = std::any_of(wanted.begin(), wanted.end(), [&](const Wanted& want) {
    const auto same = [&](const Port& port) { return port.name == want.port.name; };
    return std::none_of(outputs.begin(), outputs.end(), same) && std::none_of(inputs.begin(), inputs.end(), same);
  });
  return execute_emulator(vendor, std::move(request), inputs, samples, wanted);
}

}  // namespace htpipe
