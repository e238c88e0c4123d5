// The jobs of the vendor worker. Worker process only; paths in requests are relative to the job folder, which is the
// current folder.
// Invariant: a job returns a JSON response or an error; what it was doing when it died stands in the diary.
#pragma once

#include "base/json.h"
#include "base/result.h"
#include "qnn/steps.h"

namespace htpipe::qnn {

/// Names of files in the job folder.
inline constexpr const char* kRequestFile = "request.json";
inline constexpr const char* kResponseFile = "response.json";
inline constexpr const char* kProgressFile = "progress";
inline constexpr const char* kVerdictsFile = "verdicts.jsonl";
inline constexpr const char* kOutputFile = "output.txt";
inline constexpr const char* kSpecFolder = "spec";
inline constexpr const char* kArtifactFile = "artifact";
inline constexpr const char* kGraphFolderPrefix = "graph_";

/// Runs the job named in request["job"]. Errors: those of vendor.h, and json-shape for a malformed request.
Result<Json> run_job(const Json& request, Steps& steps);

}  // namespace htpipe::qnn
