// The report of a pipeline run as text for people.
#pragma once

#include <string>

#include "base/json.h"

namespace htpipe::cli {

/// Renders what run_pipeline reports: stages, a table of targets, warnings, and the next command. Keys that a report
/// lacks are left out.
[[nodiscard]] std::string run_text(const Json& report);

}  // namespace htpipe::cli
