// The local registry: one folder per model and target with the artifact and the proof of what it is.
//   <registry>/<model_id>/<target>/{model.dlc, model.bin, graph.htir, metadata.json, benchmark_results.json,
//   accuracy_report.json, manifest.json}
// Invariant: manifest.json, which names every file with its SHA-256, is written last; without it there is no entry.
#pragma once

#include <filesystem>

#include "base/json.h"
#include "base/result.h"
#include "pipeline/session.h"
#include "pipeline/target_run.h"

namespace htpipe {

/// Writes the entry of one target and returns its folder. The same inputs give the same bytes. Errors:
/// output-unwritable.
Result<std::filesystem::path> register_artifact(const Session& session, const TargetOutcome& outcome,
                                                const std::filesystem::path& registry);

}  // namespace htpipe
