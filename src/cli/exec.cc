// htpipe exec: a model on samples, on one of the engines.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/interrupt.h"
#include "base/io.h"
#include "base/parallel.h"
#include "cli/answer.h"
#include "cli/import_args.h"
#include "cli/table.h"
#include "export/qnn_lowering.h"
#include "kernels/isa.h"
#include "pipeline/compare.h"
#include "pipeline/engine.h"
#include "pipeline/execute.h"
#include "pipeline/input_file.h"
#include "pipeline/model_file.h"
#include "pipeline/session.h"
#include "target/spelling.h"
#include "target/target.h"

namespace htpipe::cli {
namespace {

namespace fs = std::filesystem;

/// A model made ready for its engine: a graph, or a DLC that the emulator reads itself.
struct Ready {
  std::optional<Graph> graph;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  std::vector<Port> values;  ///< everything that can be traced, in order of execution
  std::vector<std::string> notes;
};

void push_distinct(std::vector<Port>& ports, const Port& port) {
  const auto same = [&](const Port& other) { return other.name == port.name; };
  if (std::none_of(ports.begin(), ports.end(), same)) ports.push_back(port);
}

void take_ports(const Graph& graph, Ready& ready) {
  ready.inputs = ports_of(graph.inputs());
  for (const Port& port : ports_of(graph.outputs())) push_distinct(ready.outputs, port);
  ready.values = ready.inputs;
  for (const auto& node : graph.nodes()) {
    for (const Value* result : node->results) ready.values.push_back({result->name, result->type});
  }
}

void take_ports(const qnn::GraphSpec& spec, Ready& ready) {
  for (const qnn::TensorSpec& tensor : spec.tensors) {
    const Port port{tensor.name, tensor.type};
    if (tensor.role == qnn::TensorRole::kInput) ready.inputs.push_back(port);
    if (tensor.role == qnn::TensorRole::kOutput) ready.outputs.push_back(port);
    if (tensor.role != qnn::TensorRole::kStatic) ready.values.push_back(port);
  }
}

Result<Ready> make_ready(LoadedModel model, Engine engine, const Target* target, const Arguments& arguments) {
  Ready ready;
  ready.notes = std::move(model.warnings);
  if (model.spec && engine == Engine::kHtp) {
    if (target == nullptr) {
      return fail(Error(Code::kUsage, "the engine htp needs to know the chip").with_hint("Give --target."));
    }
    if (model.soc_model != 0 && model.soc_model != target->soc_model) {
      return fail(Error(Code::kVendorMismatch, fmt::format("the context binary is for soc_model {}", model.soc_model))
                      .for_target(target->id));
    }
    take_ports(*model.spec, ready);
    return ready;
  }
  HTPIPE_TRY(Graph graph, std::move(model).graph());
  HTPIPE_TRY(const std::vector<std::string> notes, prepare_for(graph, engine, target, !arguments.no_optimize));
  ready.notes.insert(ready.notes.end(), notes.begin(), notes.end());
  take_ports(graph, ready);
  ready.graph = std::move(graph);
  return ready;
}

/// The values with these names. Errors: data-format with the nearest name.
Result<std::vector<Port>> named(const std::vector<Port>& values, const std::vector<std::string>& names,
                                std::string_view what) {
  std::vector<Port> ports;
  for (const std::string& name : names) {
    const auto at = std::find_if(values.begin(), values.end(), [&](const Port& port) { return port.name == name; });
    if (at == values.end()) {
      std::vector<std::string> known;
      for (const Port& port : values) known.push_back(port.name);
      const std::string hint = did_you_mean(name, known);
      return fail(Error(Code::kUsage, fmt::format("{} \"{}\" is no value of the executed graph", what, name))
                      .with_hint(hint.empty() ? "htpipe info --graph shows the values; some are gone when the graph is "
                                                "optimised."
                                              : hint));
    }
    push_distinct(ports, *at);
  }
  return ports;
}

Json ports_json(const std::vector<Port>& ports, bool native) {
  Json list = Json::array();
  for (const Port& port : ports) {
    list.push_back({{"name", port.name},
                    {"type", to_string(port.type)},
                    {"dtype", name_of(shown_type(port.type, native).dtype)},
                    {"shape", port.type.shape}});
  }
  return list;
}

Result<InputFile> inputs_of(const Arguments& arguments, const std::vector<Port>& ports) {
  if (!arguments.inputs.empty()) return read_inputs(arguments.inputs, ports);
  if (!ports.empty()) {
    std::vector<std::string_view> names;
    for (const Port& port : ports) names.push_back(port.name);
    return fail(Error(Code::kUsage, fmt::format("the model has the inputs {}, but no --inputs", fmt::join(names, ", ")))
                    .with_hint("Give an .npz, an .npy or an input_list.txt."));
  }
  InputFile nothing;
  nothing.samples = {1, [](std::int64_t) -> Result<std::vector<Tensor>> { return std::vector<Tensor>{}; }};
  return nothing;
}

/// A graph on our engine and on the emulator.
Result<Answer> compare(const Arguments& arguments, LoadedModel model, Engine engine, const Target* target) {
  if (engine != Engine::kFixed && engine != Engine::kFp16) {
    return fail(Error(Code::kUsage, "--compare htp is for --engine fixed and fp16").with_hint("Give one of them."));
  }
  if (target == nullptr) {
    return fail(Error(Code::kUsage, "the engine htp needs to know the chip").with_hint("Give --target."));
  }
  std::vector<std::string> notes = std::move(model.warnings);
  qnn::GraphSpec spec;
  if (model.spec && model.soc_model == 0) {
    spec = std::move(*model.spec);
  } else {
    HTPIPE_TRY(Graph graph, std::move(model).graph());
    HTPIPE_TRY(const std::vector<std::string> more, prepare_for(graph, engine, target));
    notes.insert(notes.end(), more.begin(), more.end());
    HTPIPE_TRY(spec, lower_to_qnn(graph));
  }
  Ready ports;
  take_ports(spec, ports);
  HTPIPE_TRY(const InputFile inputs, inputs_of(arguments, ports.inputs));
  qnn::VendorOptions options;
  options.cancelled = interrupted;
  HTPIPE_TRY(const qnn::Vendor vendor, qnn::Vendor::find(options));
  HTPIPE_TRY(const EngineAgreement agreement, compare_engines(vendor, spec, *target, inputs.samples));

  Answer answer;
  Json& json = *answer.json;
  json["model"] = arguments.subject;
  json["engine"] = name_of(engine);
  json["compared_with"] = "htp";
  json["target"] = target->id;
  json["notes"] = notes;
  json.update(to_json(agreement));
  if (!arguments.output.empty()) {
    const fs::path file = arguments.output / "compare.json";
    HTPIPE_CHECK_OK(write_json(file, json));
    answer.brief = file.string() + "\n";
  }
  for (const std::string& note : notes) answer.text += fmt::format("Note: {}\n", note);
  Table table({"value", "operator", "type", "compared>", "equal>", "max steps>", "cosine>"});
  const auto share = [](const accuracy::StepAgreement& steps) {
    return fmt::format(
        "{:.4f} %",
        steps.compared == 0 ? 100.0 : 100.0 * static_cast<double>(steps.equal) / static_cast<double>(steps.compared));
  };
  for (const ValueAgreement& item : agreement.values) {
    table.add({item.value, item.op, std::string(name_of(item.type.dtype)) + to_string(item.type.shape),
               grouped(item.reals.count()), item.steps.compared == 0 ? "" : share(item.steps),
               item.steps.compared == 0 ? "" : grouped(item.steps.max_steps),
               fmt::format("{:.6f}", item.reals.cosine())});
  }
  const accuracy::StepAgreement total = agreement.total();
  answer.text += table.text();
  answer.text += fmt::format(
      "{} samples on {} and on the emulator of {}: {} of {} stored values equal ({}), at most {} "
      "steps apart\n",
      agreement.samples, name_of(engine), target->id, grouped(total.equal), grouped(total.compared), share(total),
      total.max_steps);
  return answer;
}

std::string milliseconds(double ms) { return ms < 10 ? fmt::format("{:.3f} ms", ms) : fmt::format("{:.1f} ms", ms); }

}  // namespace

Result<Answer> exec(const Arguments& arguments) {
  const double begin = now_ms();
  const Engine engine = *parse_engine(arguments.engine);
  if (arguments.output.empty() && arguments.compare.empty()) {
    return fail(Error(Code::kUsage, "no folder for the outputs").with_hint("Give one with -o."));
  }
  std::optional<Target> target;
  if (!arguments.targets.empty()) {
    HTPIPE_TRY(target, find_target(arguments.targets.front()));
  }
  const Target* chip = target ? &*target : nullptr;
  HTPIPE_TRY(const ImportOptions options, import_options(arguments));
  HTPIPE_TRY(LoadedModel model, load_model(arguments.subject, options));
  if (!arguments.compare.empty()) return compare(arguments, std::move(model), engine, chip);
  const double imported = now_ms();
  HTPIPE_TRY(const Ready ready, make_ready(std::move(model), engine, chip, arguments));
  HTPIPE_TRY(const InputFile inputs, inputs_of(arguments, ready.inputs));
  const double prepared = now_ms();

  std::vector<Port> outputs = ready.outputs;
  if (!inputs.selected.empty()) {
    HTPIPE_TRY(outputs, named(ready.values, inputs.selected, "output"));
  }
  std::vector<Port> traced;
  if (arguments.trace) {
    traced = ready.values;
    if (!arguments.trace_values.empty()) {
      HTPIPE_TRY(traced, named(ready.values, arguments.trace_values, "traced value"));
    }
  }
  const fs::path folder = arguments.output;
  const fs::path array_file = folder / "outputs.npz";
  const fs::path trace_file = folder / "trace.npz";
  HTPIPE_CHECK_OK(make_folder(folder));
  remove_left_overs(folder, "outputs.npz");
  remove_left_overs(folder, "trace.npz");
  const std::int64_t samples = inputs.samples.count;
  HTPIPE_TRY(const auto sink, inputs.is_list ? raw_sink(folder, outputs, arguments.native)
                                             : npz_sink(array_file, outputs, samples, arguments.native));
  std::unique_ptr<ValueSink> trace_sink;
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < outputs.size(); ++i) wanted.push_back({outputs[i], sink.get(), i});
  if (arguments.trace) {
    HTPIPE_TRY(trace_sink, npz_sink(trace_file, traced, samples, arguments.native));
    for (std::size_t i = 0; i < traced.size(); ++i) wanted.push_back({traced[i], trace_sink.get(), i});
  }

  ExecutionTimes times;
  if (engine == Engine::kHtp) {
    HTPIPE_TRY(times, execute_on_chip(ready.graph ? &*ready.graph : nullptr, arguments.subject, *chip, ready.inputs,
                                      outputs, inputs.samples, wanted));
  } else {
    // Real numbers are the same on every chip: Quantize and Dequantize follow the standard there.
    const int htp_version = engine == Engine::kFixed ? chip->htp_version : 0;
    HTPIPE_TRY(times, execute_ours(*ready.graph, htp_version, inputs.samples, wanted));
  }
  HTPIPE_CHECK_OK(sink->finish());
  if (trace_sink) HTPIPE_CHECK_OK(trace_sink->finish());

  Answer answer;
  Json& json = *answer.json;
  json["model"] = arguments.subject;
  json["engine"] = name_of(engine);
  json["target"] = chip == nullptr ? Json(nullptr) : Json(chip->id);
  json["isa"] = kernels::isa_name();
  json["threads"] = thread_count();
  json["samples"] = samples;
  json["notes"] = ready.notes;
  json["inputs"] = ports_json(ready.inputs, true);
  json["outputs"] = ports_json(outputs, arguments.native);
  if (inputs.is_list) {
    const std::vector<std::string> names = raw_names(outputs);
    for (std::size_t i = 0; i < names.size(); ++i) json["outputs"][i]["file"] = names[i];
  }
  json["folder"] = folder.string();
  json["output_file"] = inputs.is_list ? Json(nullptr) : Json(array_file.string());
  json["trace_file"] = arguments.trace ? Json(trace_file.string()) : Json(nullptr);
  json["timings"] = {{"import_ms", imported - begin},
                     {"prepare_ms", prepared - imported + times.prepare_ms},
                     {"per_image_median_ms", times.median_image_ms()},
                     {"total_ms", now_ms() - begin}};
  json["memory"] = {{"activation_bytes", times.activation_bytes}, {"scratch_bytes", times.scratch_bytes}};
  for (const std::string& note : ready.notes) answer.text += fmt::format("Note: {}\n", note);
  answer.text +=
      fmt::format("{} {} on {}{}: {} a sample, {} threads, {}\n", samples, samples == 1 ? "sample" : "samples",
                  name_of(engine), chip == nullptr ? "" : " for " + chip->id, milliseconds(times.median_image_ms()),
                  thread_count(), kernels::isa_name());
  Table table({"output", "type"});
  for (const Port& port : outputs) table.add({port.name, to_string(port.type)});
  answer.text += table.text("  ");
  const std::string result = inputs.is_list ? (folder / "Result_N").string() : array_file.string();
  answer.text += fmt::format("Outputs: {}\n", result);
  if (arguments.trace) answer.text += fmt::format("Trace: {} values in {}\n", traced.size(), trace_file.string());
  answer.brief = result + "\n";
  return answer;
}

}  // namespace htpipe::cli
