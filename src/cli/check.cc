// htpipe check: what targets make of a model, before anything is calibrated or compiled.
#include "check/check.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "base/interrupt.h"
#include "base/io.h"
#include "base/log.h"
#include "check/apply.h"
#include "check/csv.h"
#include "check/html.h"
#include "cli/answer.h"
#include "cli/check_text.h"
#include "cli/import_args.h"
#include "export/onnx/export.h"
#include "ir/text.h"
#include "pipeline/model_file.h"

namespace htpipe::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kNotFeasible = 5;

Result<std::vector<Target>> targets_of(const Arguments& arguments) {
  std::vector<Target> targets;
  for (const std::string& spelling : arguments.targets) {
    HTPIPE_TRY(Target target, find_target(spelling));
    targets.push_back(std::move(target));
  }
  return targets;
}

/// The vendor whose validator is asked; nothing where it is not installed or not wanted.
Result<std::optional<qnn::Vendor>> vendor_of(const Arguments& arguments) {
  if (arguments.no_validator) return std::optional<qnn::Vendor>();
  qnn::VendorOptions options;
  options.cancelled = interrupted;
  auto vendor = qnn::Vendor::find(options);
  if (vendor) return std::optional(std::move(*vendor));
  if (vendor.error().code != Code::kVendorMissing) return fail(std::move(vendor.error()));
  log::warn("check", "{}: the check goes by our own rules alone", vendor.error().summary());
  return std::optional<qnn::Vendor>();
}

Result<check::Model> load(const Arguments& arguments) {
  HTPIPE_TRY(const ImportOptions options, import_options(arguments));
  HTPIPE_TRY(LoadedModel loaded, load_model(arguments.subject, options));
  std::vector<std::string> warnings = std::move(loaded.warnings);
  HTPIPE_TRY(Graph graph, std::move(loaded).graph());
  return check::prepare(std::move(graph), std::move(warnings));
}

/// Makes the fixes of the advice in `model`, and writes it.
Result<std::vector<check::Applied>> apply(const fs::path& path, check::Model& model) {
  const bool onnx = path.extension() == ".onnx";
  if (!onnx && path.extension() != ".htir") {
    return fail(Error(Code::kUsage, fmt::format("\"{}\" is neither .onnx nor .htir", path.string()))
                    .with_hint("--apply writes the changed model: --apply model.onnx."));
  }
  HTPIPE_TRY(std::vector<check::Applied> done, check::apply_fixes(model.imported, model.optimised));
  HTPIPE_CHECK_OK(verify(model.imported));
  if (onnx) {
    HTPIPE_TRY(const OnnxFile file, export_onnx(model.imported, path));
    log::info("check", "{}: {} nodes", file.model.string(), file.nodes);
  } else {
    HTPIPE_CHECK_OK(write_file_atomic(path, print(model.imported)));
  }
  HTPIPE_TRY(model, check::prepare(std::move(model.imported), std::move(model.warnings)));
  return done;
}

Result<std::vector<check::CheckReport>> reports_of(const Arguments& arguments, const std::vector<Target>& targets,
                                                   Precision precision, std::vector<check::Applied>& applied) {
  std::vector<check::CheckReport> reports;
  Result<check::Model> model = load(arguments);
  if (!model) {
    for (const Target& target : targets) {
      auto report =
          check::report_impossible(model.error(), fs::path(arguments.subject).stem().string(), target, precision);
      if (!report) return fail(model.error());
      reports.push_back(std::move(*report));
    }
    return reports;
  }
  if (!arguments.apply.empty()) {
    HTPIPE_TRY(applied, apply(arguments.apply, *model));
  }
  HTPIPE_TRY(const std::optional<qnn::Vendor> vendor, vendor_of(arguments));
  check::CheckOptions options;
  options.precision = precision;
  options.vendor = vendor ? &*vendor : nullptr;
  for (const Target& target : targets) {
    HTPIPE_TRY(check::CheckReport report, check::check_model(*model, target, options));
    reports.push_back(std::move(report));
  }
  return reports;
}

/// "dir/table.csv" for one target, "dir/table_TARGET.csv" for several.
fs::path path_for(const fs::path& path, const std::string& target, std::size_t targets) {
  if (targets == 1) return path;
  return path.parent_path() / fmt::format("{}_{}{}", path.stem().string(), target, path.extension().string());
}

Status write_views(const Arguments& arguments, const std::vector<check::CheckReport>& reports,
                   std::vector<fs::path>& written) {
  const auto write = [&](const fs::path& path, const std::string& text) -> Status {
    written.push_back(path);
    return write_file_atomic(path, text);
  };
  const fs::path& folder = arguments.output;
  if (!folder.empty()) HTPIPE_CHECK_OK(make_folder(folder));
  for (const check::CheckReport& report : reports) {
    if (!arguments.csv.empty()) {
      HTPIPE_CHECK_OK(write(path_for(arguments.csv, report.target, reports.size()), to_csv(report)));
    }
    if (folder.empty()) continue;
    HTPIPE_CHECK_OK(write(folder / fmt::format("check_{}.csv", report.target), to_csv(report)));
    HTPIPE_CHECK_OK(write(folder / fmt::format("check_{}.json", report.target), to_text(to_json(report))));
  }
  if (!folder.empty()) HTPIPE_CHECK_OK(write(folder / "check.html", to_html(reports)));
  if (!arguments.html.empty()) HTPIPE_CHECK_OK(write(arguments.html, to_html(reports)));
  return {};
}

}  // namespace

Result<Answer> check(const Arguments& arguments) {
  const auto precision = parse_precision(arguments.precision);
  if (!precision) return fail(Code::kUsage, fmt::format("no precision \"{}\"", arguments.precision));
  HTPIPE_TRY(const std::vector<Target> targets, targets_of(arguments));
  std::vector<check::Applied> applied;
  HTPIPE_TRY(const std::vector<check::CheckReport> reports, reports_of(arguments, targets, *precision, applied));

  Answer answer;
  Json list = Json::array();
  std::vector<std::string> refusing;
  for (const check::CheckReport& report : reports) {
    if (!answer.text.empty()) answer.text += "\n";
    answer.text += check_text(report, arguments.all);
    answer.brief += fmt::format("{} {}\n", report.target, report.feasible ? "feasible" : "not-feasible");
    list.push_back(to_json(report));
    if (!report.feasible) refusing.push_back(report.target);
  }
  std::vector<fs::path> written;
  Json changes = Json::array();
  for (const check::Applied& one : applied) {
    answer.text += fmt::format("Applied {}: {} {}\n", one.rule, one.place, one.text);
    changes.push_back({{"rule", one.rule}, {"input", one.place}, {"change", one.text}});
  }
  if (!arguments.apply.empty()) written.emplace_back(arguments.apply);
  HTPIPE_CHECK_OK(write_views(arguments, reports, written));
  for (const fs::path& path : written) answer.text += fmt::format("Written: {}\n", path.string());
  *answer.json = {{"file", arguments.subject}, {"feasible", refusing.empty()}, {"checks", std::move(list)}};
  if (!arguments.apply.empty()) (*answer.json)["applied"] = std::move(changes);
  if (!refusing.empty()) {
    answer.exit_code = kNotFeasible;
    answer.failure = fmt::format("the model does not run as a whole on {}", fmt::join(refusing, ", "));
  }
  return answer;
}

}  // namespace htpipe::cli
