#include "pipeline/run.h"

#include <fmt/core.h>
#include <sys/wait.h>

#include <cstdlib>

#include "base/interrupt.h"
#include "base/io.h"
#include "base/version.h"
#include "kernels/isa.h"
#include "ops/registry.h"
#include "pipeline/front_stages.h"
#include "pipeline/registry.h"
#include "pipeline/session.h"
#include "pipeline/target_run.h"
#include "target/coverage.h"
#include "target/target.h"

namespace htpipe {
namespace {

Json stages_json(const std::vector<StageRecord>& stages) {
  Json json = Json::array();
  for (const StageRecord& stage : stages) {
    json.push_back({{"stage", stage.stage},
                    {"target", stage.target.empty() ? Json(nullptr) : Json(stage.target)},
                    {"time_ms", stage.time_ms},
                    {"cached", stage.cached},
                    {"result", stage.result}});
  }
  return json;
}

Json target_json(const TargetOutcome& outcome, const std::filesystem::path& folder) {
  std::error_code error;
  const auto size = [&error](const std::filesystem::path& path) {
    return path.empty() ? Json(nullptr) : Json(std::filesystem::file_size(path, error));
  };
  Json worst;
  if (!outcome.rounds.empty()) worst = outcome.rounds.back().at("worst");
  Json precisions = Json::object();
  for (const auto& [name, precision] : outcome.precision.precisions) precisions[name] = name_of(precision);
  return {{"target", outcome.target.id},
          {"name", outcome.target.name},
          {"soc", outcome.target.soc},
          {"arch", outcome.target.arch()},
          {"coverage", outcome.coverage},
          {"dlc_bytes", size(outcome.dlc)},
          {"context_binary_bytes", size(outcome.context_binary)},
          {"worst_layer", worst},
          {"task", outcome.task},
          {"gates", outcome.gates},
          {"failures", outcome.failures},
          {"raised", precisions},
          {"rounds", outcome.rounds.size()},
          {"registry", folder.string()}};
}

/// Tells the configured command that the run failed. Its own failure is a warning.
void run_alert(const PipelineConfig& config, const std::vector<std::string>& failures,
               std::vector<std::string>& warnings) {
  if (config.gates.alert.empty()) return;
  std::string text;
  for (const std::string& failure : failures) text += failure + "\n";
  ::setenv("HTPIPE_STATUS", "FAIL", 1);
  ::setenv("HTPIPE_MODEL", config.model.id.c_str(), 1);
  ::setenv("HTPIPE_FAILURES", text.c_str(), 1);
  // What it prints belongs to people: stdout is reserved for the answer.
  const int status = std::system(fmt::format("exec 1>&2; {}", config.gates.alert).c_str());
  if (status != 0) {
    warnings.push_back(
        fmt::format("the alert command ended with status {}", WIFEXITED(status) ? WEXITSTATUS(status) : status));
  }
}

Result<std::vector<Target>> chosen_targets(const PipelineConfig& config, const RunOptions& options) {
  std::vector<Target> targets;
  for (const std::string& id : options.targets_override.empty() ? config.targets : options.targets_override) {
    HTPIPE_TRY(Target target, find_target(id));
    targets.push_back(std::move(target));
  }
  return targets;
}

/// The plan of a dry run: what would be read, made and written.
Json plan_json(const PipelineConfig& config, const std::vector<Target>& targets, const std::filesystem::path& output) {
  Json ids = Json::array();
  for (const Target& target : targets) ids.push_back(target.id);
  return {{"dry_run", true},
          {"model", source_text(config.model)},
          {"targets", std::move(ids)},
          {"options", to_json(config)},
          {"output", output.string()},
          {"stages",
           {"import", "optimise", "calibrate", "coverage", "quantise", "compile", "compare layers", "task accuracy",
            "register"}}};
}

Result<RunSummary> execute(const PipelineConfig& config, const std::vector<Target>& targets,
                           const std::filesystem::path& output, bool force) {
  HTPIPE_TRY(Cache cache, Cache::open(output / "cache", force));
  remove_left_overs(output, "report.json");
  HTPIPE_TRY(Front front, run_front(config, cache));
  Session& session = *front.session;

  Json target_rows = Json::array();
  std::vector<std::string> failures;
  for (const Target& target : targets) {
    if (interrupted()) return fail(Error(Code::kInterrupted, "before the next target").for_target(target.id));
    HTPIPE_TRY(Json coverage, coverage_of(session, target));
    HTPIPE_TRY(TargetOutcome outcome, run_target(session, target));
    outcome.coverage = std::move(coverage);
    std::filesystem::path folder;
    HTPIPE_CHECK_OK(session.stage("register", target.id, [&]() -> Result<std::string> {
      HTPIPE_TRY(folder, register_artifact(session, outcome, output / "registry"));
      return folder.string();
    }));
    for (const std::string& failure : outcome.failures) failures.push_back(target.id + ": " + failure);
    target_rows.push_back(target_json(outcome, folder));
  }
  if (!failures.empty()) run_alert(config, failures, session.warnings);

  RunSummary summary;
  summary.exit_code = failures.empty() ? 0 : info(Code::kGateTask).exit_code;
  summary.report = {{"htpipe", kVersion},
                    {"model", config.model.id},
                    {"status", failures.empty() ? "PASS" : "FAIL"},
                    {"output", output.string()},
                    {"engine", kernels::isa_name()},
                    {"vendor", session.vendor_versions},
                    {"import", front.import_report},
                    {"passes", front.passes_report},
                    {"dependencies", to_json(layer_dependencies(session.imported))},
                    {"targets", std::move(target_rows)},
                    {"stages", stages_json(session.stages)},
                    {"warnings", session.warnings}};
  if (!failures.empty()) {
    const std::string code = failures.front().substr(failures.front().find(": ") + 2);
    const CodeInfo* row = find_code(code.substr(0, code.find(':')));
    summary.report["failure"] = {{"stage", "gate"},
                                 {"message", failures.front()},
                                 {"next", row == nullptr ? std::string() : std::string(row->next)},
                                 {"all", failures}};
  }
  HTPIPE_CHECK_OK(write_json(output / "report.json", summary.report));
  return summary;
}

}  // namespace

Result<RunSummary> run_pipeline(const PipelineConfig& config, const RunOptions& options) {
  register_all_ops();
  HTPIPE_TRY(const std::vector<Target> targets, chosen_targets(config, options));
  const std::filesystem::path output = options.output_override.empty() ? config.output : options.output_override;
  if (options.dry_run) {
    HTPIPE_CHECK_OK(check_front(config));
    return RunSummary{plan_json(config, targets, output), 0};
  }
  return execute(config, targets, output, options.force);
}

}  // namespace htpipe
