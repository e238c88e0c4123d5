// The stages that serve all targets: import, optimise, compare with PyTorch, calibrate, float baseline.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/result.h"
#include "pipeline/session.h"
#include "target/target.h"

namespace htpipe {

/// The results of the common stages; `session` refers to the rest.
struct Front {
  std::unique_ptr<Graph> imported;
  std::unique_ptr<Graph> optimised;
  std::unique_ptr<Dataset> calibration;
  std::unique_ptr<Dataset> evaluation;
  std::unique_ptr<Session> session;
  Json import_report;
  Json passes_report;
};

Result<Front> run_front(const PipelineConfig& config, Cache& cache);

/// Reads and checks what run_front needs, without running anything.
Status check_front(const PipelineConfig& config);

/// Operators of the imported model on one target: by our rules, and by the vendor's validator where it is installed.
/// Errors: target-unsupported with a note for every node that the chip cannot execute.
Result<Json> coverage_of(Session& session, const Target& target);

}  // namespace htpipe
