// The report with the columns of the vendor's architecture checker, so that what reads its files reads ours.
#pragma once

#include <string>

#include "check/report.h"

namespace htpipe::check {

/// A table of all nodes that do not run on the chip and of all advice: (row number), "Graph / Layer name", "Issue",
/// "Recommendation", "Type", "Input_tensor_name:[dims]", "Output_tensor_name:[dims]", "Parameters", "Previous layer",
/// "Next layers", "Modification", "Modification_info". What there is not is "N/A". RFC 4180, lines end in CR LF.
[[nodiscard]] std::string to_csv(const CheckReport& report);

}  // namespace htpipe::check
