// htpipe run: the pipeline file through every stage.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/answer.h"
#include "cli/import_args.h"
#include "cli/run_text.h"
#include "pipeline/config.h"
#include "pipeline/run.h"
#include "target/target.h"

namespace htpipe::cli {
namespace {

Result<std::vector<std::string>> canonical_targets(const std::vector<std::string>& spellings) {
  std::vector<std::string> ids;
  for (const std::string& spelling : spellings) {
    HTPIPE_TRY(const Target target, find_target(spelling));
    if (std::find(ids.begin(), ids.end(), target.id) == ids.end()) ids.push_back(target.id);
  }
  return ids;
}

/// The last line for a run that ended with a failed gate: from the report's "failure" object.
std::string failure_line(const Json& report, int exit_code) {
  const auto failure = report.find("failure");
  const auto field = [&](const char* key, const std::string& otherwise) {
    if (failure == report.end() || !failure->is_object()) return otherwise;
    return failure->value(key, otherwise);
  };
  return fmt::format("stage {}: {}; next: {}", field("stage", "gate"),
                     field("message", fmt::format("the run ended with exit code {}", exit_code)),
                     field("next", "See the report above."));
}

}  // namespace

Result<Answer> run(const Arguments& arguments) {
  auto config = read_config(arguments.subject);
  if (!config) return fail(std::move(config.error()).with_note("stage pipeline-file"));
  HTPIPE_TRY(const ImportOptions given, import_options(arguments));
  for (const auto& [name, size] : given.dims) config->model.dims[name] = size;
  RunOptions options;
  options.dry_run = arguments.dry_run;
  options.force = arguments.force;
  options.output_override = arguments.output;
  HTPIPE_TRY(options.targets_override, canonical_targets(arguments.targets));
  HTPIPE_TRY(const RunSummary summary, run_pipeline(*config, options));
  Answer answer;
  *answer.json = summary.report;
  answer.text = run_text(summary.report);
  answer.exit_code = summary.exit_code;
  // -q shows where the result is, if the report tells.
  const auto output = summary.report.find("output");
  if (output != summary.report.end() && output->is_string()) answer.brief = output->get<std::string>() + "\n";
  if (summary.exit_code != 0) answer.failure = failure_line(summary.report, summary.exit_code);
  return answer;
}

}  // namespace htpipe::cli
