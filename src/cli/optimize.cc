// htpipe optimize: what the passes make of a model, which of them does what, and which of them is at fault.
#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/io.h"
#include "cli/answer.h"
#include "cli/import_args.h"
#include "cli/info.h"
#include "cli/table.h"
#include "export/onnx/export.h"
#include "import/import_model.h"
#include "ir/text.h"
#include "passes/bisect.h"
#include "passes/driver.h"
#include "pipeline/engine.h"
#include "pipeline/execute.h"
#include "pipeline/input_file.h"
#include "pipeline/output_check.h"

namespace htpipe::cli {
namespace {

namespace fs = std::filesystem;

/// Largest relative difference that all passes together may make, and the share of it that one may (docs/optimiser.md).
constexpr double kTolerance = 1e-4;
constexpr double kShareOfPass = 0.1;
/// A pass rounds anew in every layer that it touches, so it may differ by so many times what the last bit of the inputs
/// does to the model: PP-OCRv4's detection makes 1.2e-5 of that, and 2.2e-5 of two Batchnorms folded in its first layers.
constexpr double kRoundings = 4;
constexpr std::int64_t kMadeUpSamples = 2;

bool writes_onnx(const Arguments& arguments) { return arguments.output.extension() == ".onnx"; }

Status check_arguments(const Arguments& arguments) {
  const fs::path extension = arguments.output.extension();
  if (!arguments.output.empty() && extension != ".onnx" && extension != ".htir") {
    return fail(Error(Code::kUsage, fmt::format("\"{}\" is neither .htir nor .onnx", arguments.output.string()))
                    .with_hint("Give -o model.htir or -o model.onnx."));
  }
  std::error_code ignored;
  if (!arguments.output.empty() && fs::equivalent(arguments.output, arguments.subject, ignored)) {
    return fail(Error(Code::kUsage, "the output is the model itself").with_hint("Give another name with -o."));
  }
  if (arguments.subject.empty() && !arguments.print_order && !arguments.list) {
    return fail(Error(Code::kUsage, "no model given").with_hint("Give a .pt2, .onnx or .htir file."));
  }
  const bool compares = arguments.bisect || arguments.verify;
  if (!compares && !(arguments.inputs.empty() && arguments.reference.empty() && std::isnan(arguments.tolerance))) {
    return fail(Error(Code::kUsage, "--inputs, --reference and --tolerance are for --bisect and --verify")
                    .with_hint("Give one of them too."));
  }
  if (!arguments.reference.empty() && arguments.inputs.empty()) {
    return fail(Error(Code::kUsage, "--reference without --inputs").with_hint("Give the inputs that it belongs to."));
  }
  if (arguments.bisect && !(arguments.output.empty() && arguments.dump.empty() && !arguments.verify)) {
    return fail(Error(Code::kUsage, "--bisect only searches: it takes no -o, --dump or --verify")
                    .with_hint("Leave them out, then look at the run that it names with --dump."));
  }
  return {};
}

Result<PassOptions> pass_options(const Arguments& arguments) {
  PassOptions options;
  if (arguments.order.empty()) {
    options.order = writes_onnx(arguments) ? onnx_order() : default_order();
  } else {
    HTPIPE_TRY(const std::string text, read_text(arguments.order));
    HTPIPE_TRY(options.order, parse_order(text, arguments.order.string()));
  }
  for (const std::string& name : arguments.skipped) HTPIPE_CHECK_OK(known_pass(name));
  options.skip = arguments.skipped;
  if (!arguments.stop_after.empty()) HTPIPE_CHECK_OK(known_pass(arguments.stop_after));
  options.stop_after = arguments.stop_after;
  return options;
}

Result<Answer> print_order(const Arguments& arguments) {
  Answer answer;
  HTPIPE_TRY(const PassOptions options, pass_options(arguments));
  (*answer.json)["order"] = options.order;
  if (arguments.order.empty()) {
    answer.text = writes_onnx(arguments) ? onnx_order_text() : default_order_text();
  } else {
    HTPIPE_TRY(answer.text, read_text(arguments.order));
  }
  answer.brief = answer.text;
  return answer;
}

Answer list_passes() {
  Answer answer;
  Json list = Json::array();
  Table table({"pass", "does"});
  for (const Pass* pass : all_passes()) {
    table.add({std::string(pass->name), std::string(pass->doc)});
    list.push_back({{"pass", pass->name}, {"does", pass->doc}});
  }
  (*answer.json)["passes"] = std::move(list);
  answer.text = table.text();
  return answer;
}

/// The samples on which graphs are compared, and what their outputs should be.
struct Judge {
  SampleSource samples;
  OutputValues wanted;
};

Result<Judge> make_judge(const Graph& graph, const Arguments& arguments) {
  Judge judge;
  if (arguments.inputs.empty()) {
    judge.samples = made_up_samples(graph, kMadeUpSamples);
  } else {
    HTPIPE_TRY(InputFile inputs, read_inputs(arguments.inputs, ports_of(graph.inputs())));
    judge.samples = std::move(inputs.samples);
  }
  if (arguments.reference.empty()) {
    HTPIPE_TRY(judge.wanted, outputs_of(graph, judge.samples));
    return judge;
  }
  // Outputs stand in a file as inputs do.
  HTPIPE_TRY(const InputFile outputs, read_inputs(arguments.reference, ports_of(graph.outputs())));
  if (outputs.samples.count != judge.samples.count) {
    return fail(Error(Code::kDataTooFew,
                      fmt::format("{} samples of outputs, {} of inputs", outputs.samples.count, judge.samples.count))
                    .in_file(arguments.reference.string()));
  }
  for (std::int64_t i = 0; i < outputs.samples.count; ++i) {
    HTPIPE_TRY(const std::vector<Tensor> tensors, outputs.samples.get(i));
    for (const Tensor& tensor : tensors) judge.wanted.push_back(to_floats(tensor));
  }
  return judge;
}

double tolerance_of(const Arguments& arguments) {
  return std::isnan(arguments.tolerance) ? kTolerance : arguments.tolerance;
}

std::string operators_text(const Graph& graph, Json& json) {
  OpCounts counts;
  for (const auto& node : graph.nodes()) ++counts[std::string(node->op->name)];
  json["operators"] = counts_json(counts);
  return counts_text(counts);
}

std::string milliseconds(double ms) { return fmt::format("{:.1f}", ms); }

void describe(const std::vector<PassRecord>& records, const Arguments& arguments, Answer& answer) {
  const bool verbose = arguments.global.verbose > 0;
  Table table({"run>", "pass", "rewrites>", "nodes>", "ms>"});
  double total_ms = 0;
  int rewrites = 0;
  int runs = 0;
  std::string notes;
  for (const PassRecord& record : records) {
    total_ms += record.time_ms;
    rewrites += record.rewrites;
    runs = std::max(runs, record.number);
    if (record.skipped) {
      if (verbose) table.add({"", record.name, "", record.why, ""});
      continue;
    }
    if (record.rewrites == 0 && !verbose) continue;
    table.add({std::to_string(record.number), record.name, std::to_string(record.rewrites),
               fmt::format("{} -> {}", record.nodes_before, record.nodes_after), milliseconds(record.time_ms)});
    for (const std::string& note : record.notes) {
      notes += fmt::format("{:>5} {}: {}\n", record.number, record.name, note);
    }
  }
  if (!table.empty()) answer.text += table.text("  ");
  if (verbose) answer.text += notes;
  answer.text += fmt::format("{} runs of passes, {} rewrites, {} ms\n", runs, rewrites, milliseconds(total_ms));
  Json& json = *answer.json;
  json["passes"] = to_json(records);
  json["runs"] = runs;
  json["rewrites"] = rewrites;
  json["time_ms"] = total_ms;
}

Result<Answer> bisect(const Graph& imported, const PassOptions& options, const Arguments& arguments, Answer answer) {
  HTPIPE_TRY(const Judge judge, make_judge(imported, arguments));
  const double tolerance = tolerance_of(arguments);
  const GraphComparison holds = [&](const Graph& graph) -> Status {
    HTPIPE_TRY(const OutputValues found, outputs_of(graph, judge.samples));
    return same_outputs(graph, judge.wanted, found, tolerance);
  };
  HTPIPE_TRY(const Bisection found, bisect_passes(imported, options, holds));
  Json& json = *answer.json;
  json["tolerance"] = tolerance;
  json["samples"] = judge.samples.count;
  json["runs"] = found.runs;
  json["trials"] = found.trials;
  json["culprit"] = nullptr;
  answer.text += fmt::format("{} runs of passes, {} graphs compared on {} samples, allowed is {:.3g}\n", found.runs,
                             found.trials, judge.samples.count, tolerance);
  if (!found.culprit) {
    answer.text += "No pass breaks the comparison.\n";
    return answer;
  }
  const PassRecord& record = *found.culprit;
  const std::string reason = found.error ? found.error->summary() : "";
  json["culprit"] = to_json(std::vector<PassRecord>{record}).front();
  json["culprit"]["error"] = reason;
  json["holds_without"] = found.holds_without;
  answer.text +=
      fmt::format("Run {} breaks it first: {} (round {}), {} rewrites, {} nodes to {}\n  {}\n", record.number,
                  record.name, record.round, record.rewrites, record.nodes_before, record.nodes_after, reason);
  for (const std::string& note : record.notes) answer.text += fmt::format("  {}\n", note);
  answer.text += fmt::format("With --skip {} the comparison {} behind the last pass.\n", record.name,
                             found.holds_without ? "holds" : "fails too");
  answer.brief = record.name + "\n";
  answer.exit_code = 1;
  answer.failure =
      fmt::format("{}: run {} of the passes, {}", word(Code::kPassChangedResult), record.number, record.name);
  return answer;
}

/// Every pass against the graph before it (`before`, which moves on), and against the imported one.
PassCheck verifier(const Judge& judge, OutputValues& before, double pass_tolerance, double tolerance) {
  return [&judge, &before, pass_tolerance, tolerance](const Graph& graph, std::string_view) -> Status {
    HTPIPE_TRY(OutputValues after, outputs_of(graph, judge.samples));
    HTPIPE_CHECK_OK(same_outputs(graph, before, after, pass_tolerance));
    HTPIPE_CHECK_OK(same_outputs(graph, judge.wanted, after, tolerance));
    before = std::move(after);
    return {};
  };
}

Status write(const Graph& graph, const Arguments& arguments, Answer& answer) {
  if (arguments.output.empty()) return {};
  Json& json = *answer.json;
  json["file"] = arguments.output.string();
  answer.brief = arguments.output.string() + "\n";
  if (!writes_onnx(arguments)) {
    answer.text += fmt::format("{}\n", arguments.output.string());
    return write_file_atomic(arguments.output, print(graph));
  }
  OnnxOptions onnx;
  onnx.opset = arguments.opset;
  HTPIPE_TRY(const OnnxFile file, export_onnx(graph, arguments.output, onnx));
  json["opset"] = onnx.opset;
  json["onnx_nodes"] = file.nodes;
  if (!file.data.empty()) json["data_file"] = file.data.string();
  answer.text +=
      fmt::format("{}: opset {}, {} nodes, {}\n", file.model.string(), onnx.opset, file.nodes, human_bytes(file.bytes));
  return {};
}

}  // namespace

Result<Answer> optimize(const Arguments& arguments) {
  HTPIPE_CHECK_OK(check_arguments(arguments));
  if (arguments.list) return list_passes();
  if (arguments.print_order) return print_order(arguments);
  HTPIPE_TRY(PassOptions options, pass_options(arguments));
  HTPIPE_TRY(const ImportOptions import, import_options(arguments));
  HTPIPE_TRY(ImportedModel model, import_model(arguments.subject, import));
  if (has_encodings(model.graph)) {
    return fail(Error(Code::kUnsupportedForm, "the model is quantised; passes work on real numbers")
                    .with_hint("Give the float model; htpipe convert writes a quantised one as it is."));
  }
  Answer answer;
  Json& json = *answer.json;
  json["model"] = arguments.subject;
  json["warnings"] = model.warnings;
  json["order"] = options.order;
  for (const std::string& warning : model.warnings) answer.text += fmt::format("Warning: {}\n", warning);
  if (arguments.bisect) return bisect(model.graph, options, arguments, std::move(answer));

  Judge judge;
  OutputValues before;
  if (arguments.verify) {
    HTPIPE_TRY(judge, make_judge(model.graph, arguments));
    HTPIPE_TRY(before, outputs_of(model.graph, judge.samples));
    const double tolerance = tolerance_of(arguments);
    HTPIPE_CHECK_OK(same_outputs(model.graph, judge.wanted, before, tolerance));
    HTPIPE_TRY(const OutputValues nudged, outputs_of(model.graph, nudged_samples(judge.samples)));
    const double rounding = largest_difference(before, nudged);
    const double pass_tolerance = std::clamp(kRoundings * rounding, kShareOfPass * tolerance, tolerance);
    options.check = verifier(judge, before, pass_tolerance, tolerance);
    json["rounding"] = rounding;
    json["pass_tolerance"] = pass_tolerance;
  }
  if (!arguments.dump.empty()) {
    HTPIPE_CHECK_OK(make_folder(arguments.dump));
    HTPIPE_CHECK_OK(write_file_atomic(arguments.dump / "000_imported.htir", print(model.graph)));
    options.observer = dump_into(arguments.dump);
    json["dump"] = arguments.dump.string();
  }
  const std::size_t nodes = model.graph.nodes().size();
  HTPIPE_TRY(const std::vector<PassRecord> records, run_passes(model.graph, options));
  json["nodes_before"] = nodes;
  json["nodes_after"] = model.graph.nodes().size();
  describe(records, arguments, answer);
  answer.text +=
      fmt::format("{} nodes, {} before: {}\n", model.graph.nodes().size(), nodes, operators_text(model.graph, json));
  json["verified"] = arguments.verify;
  if (arguments.verify) {
    const double worst = largest_difference(judge.wanted, before);
    json["difference"] = worst;
    answer.text += fmt::format("Executed after every pass on {} samples: largest relative difference {:.2g}\n",
                               judge.samples.count, worst);
  }
  HTPIPE_CHECK_OK(write(model.graph, arguments, answer));
  return answer;
}

}  // namespace htpipe::cli
