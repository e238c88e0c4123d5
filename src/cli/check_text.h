// The report of a feasibility check as text for people.
#pragma once

#include <string>

#include "check/report.h"

namespace htpipe::cli {

/// Verdict, what is not native grouped by operator and reason, parts and cuts, memory, advice. With `all` one line per
/// node instead of the groups.
[[nodiscard]] std::string check_text(const check::CheckReport& report, bool all);

}  // namespace htpipe::cli
