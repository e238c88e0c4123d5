// One run of the pipeline: from the pipeline file to verified artifacts in the registry.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "pipeline/config.h"

namespace htpipe {

struct RunOptions {
  bool dry_run = false;                       ///< check and plan, write nothing
  std::vector<std::string> targets_override;  ///< ids; empty = those of the pipeline file
  std::filesystem::path output_override;      ///< empty = that of the pipeline file
  bool force = false;                         ///< do not use cached stage results
};

struct RunSummary {
  Json report;        ///< the document of --json; its keys: docs/pipeline-file.md
  int exit_code = 0;  ///< 0, or 3 when a gate failed
};

/// Runs the pipeline. A gate that fails is no error: it is told by `exit_code` 3 and the report, and the alert command
/// of the pipeline file is run. Errors: those of every stage, with a note "stage NAME".
Result<RunSummary> run_pipeline(const PipelineConfig& config, const RunOptions& options);

}  // namespace htpipe
