// htpipe convert: a model as an ONNX file, which is checked and compared with its source before it gets its name.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/interrupt.h"
#include "base/io.h"
#include "cli/answer.h"
#include "cli/import_args.h"
#include "cli/table.h"
#include "export/onnx/export.h"
#include "import/import_model.h"
#include "ir/encodings.h"
#include "passes/driver.h"
#include "pipeline/python_bridge.h"

namespace htpipe::cli {
namespace {

namespace fs = std::filesystem;

constexpr double kTolerance = 1e-4;

/// Passes that keep every value: what is left out here is for the chip.
PassOptions clean_up() {
  PassOptions options;
  options.order = {"remove_dead_code", "fold_constants remove_identities", "fold_batchnorm",
                   "cancel_transposes join_product_transposes remove_identities", "remove_dead_code"};
  return options;
}

/// Largest difference that counts as rounding.
double limit_of(const OnnxDifference& row) { return kTolerance * std::max(1.0, row.range); }

Status judge(const OnnxReport& report) {
  std::vector<std::string> notes;
  for (const OnnxDifference& row : report.outputs) {
    // A difference that is no number is a mismatch too.
    if (row.max_abs < limit_of(row)) continue;
    notes.push_back(fmt::format("output {}: largest difference {:.3g}, allowed is {:.3g} (values span {:.3g})",
                                row.output, row.max_abs, limit_of(row), row.range));
  }
  if (notes.empty()) return {};
  Error error(Code::kExportMismatch,
              fmt::format("{} of {} outputs differ; nothing was written", notes.size(), report.outputs.size()));
  error.notes = std::move(notes);
  return fail(std::move(error));
}

std::string type_of(const Graph& graph, const std::string& output) {
  for (const Value* value : graph.outputs()) {
    if (value->name == output) return to_string(value->type);
  }
  return {};
}

void describe(const Graph& graph, const std::optional<OnnxReport>& report, Answer& answer) {
  Json& json = *answer.json;
  json["verified"] = report.has_value();
  if (!report) {
    answer.text += "Not verified.\n";
    return;
  }
  Table table({"output", "type", "max difference>", "allowed>", "range>"});
  Json rows = Json::array();
  for (const OnnxDifference& row : report->outputs) {
    const std::string type = type_of(graph, row.output);
    table.add({row.output, type, fmt::format("{:.2e}", row.max_abs), fmt::format("{:.2e}", limit_of(row)),
               fmt::format("{:.4g}", row.range)});
    rows.push_back({{"name", row.output},
                    {"source_name", row.source_output},
                    {"type", type},
                    {"max_difference", row.max_abs},
                    {"allowed", limit_of(row)},
                    {"range", row.range}});
  }
  json["outputs"] = std::move(rows);
  json["onnx"] = report->onnx_version;
  json["onnxruntime"] = report->runtime_version;
  answer.text += fmt::format("Checked by onnx {}, compared with the source in ONNX Runtime {}:\n{}",
                             report->onnx_version, report->runtime_version, table.text("  "));
}

}  // namespace

Result<Answer> convert(const Arguments& arguments) {
  const fs::path output = arguments.output;
  if (output.extension() != ".onnx") {
    return fail(Error(Code::kUsage, fmt::format("\"{}\" is no .onnx file", output.string()))
                    .with_hint("htpipe convert writes ONNX: -o model.onnx."));
  }
  std::error_code ignored;
  if (fs::equivalent(output, arguments.subject, ignored)) {
    return fail(Error(Code::kUsage, "the output is the model itself").with_hint("Give another name with -o."));
  }
  HTPIPE_TRY(const ImportOptions options, import_options(arguments));
  HTPIPE_TRY(ImportedModel model, import_model(arguments.subject, options));
  // What is quantised is written as it is.
  if (!has_encodings(model.graph)) HTPIPE_CHECK_OK(run_passes(model.graph, clean_up()));

  OnnxOptions onnx;
  onnx.opset = arguments.opset;
  onnx.external_data = arguments.external_data;
  std::optional<OnnxReport> report;
  if (!arguments.no_verify) {
    onnx.check = [&](const fs::path& written) -> Status {
      OnnxVerification verification;
      verification.exported = written;
      verification.source = arguments.subject;
      verification.fixed = options.fix;
      PythonOptions python;
      python.cancelled = interrupted;
      HTPIPE_TRY(report, verify_onnx(verification, python));
      return judge(*report);
    };
  }
  HTPIPE_TRY(const OnnxFile file, export_onnx(model.graph, output, onnx));

  Answer answer;
  Json& json = *answer.json;
  json["file"] = file.model.string();
  if (!file.data.empty()) json["data_file"] = file.data.string();
  json["bytes"] = file.bytes;
  json["opset"] = onnx.opset;
  json["nodes"] = file.nodes;
  json["warnings"] = model.warnings;
  for (const std::string& warning : model.warnings) answer.text += fmt::format("Warning: {}\n", warning);
  answer.text +=
      fmt::format("{}: opset {}, {} nodes, {}\n", file.model.string(), onnx.opset, file.nodes, human_bytes(file.bytes));
  if (!file.data.empty()) answer.text += fmt::format("Weights: {}\n", file.data.string());
  describe(model.graph, report, answer);
  answer.brief = file.model.string() + "\n";
  return answer;
}

}  // namespace htpipe::cli
