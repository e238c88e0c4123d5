// The report as one HTML file that needs no other file and no network.
#pragma once

#include <string>
#include <vector>

#include "check/report.h"

namespace htpipe::check {

/// A page with one section per report (chip): verdict, parts and cuts, memory, advice, every node.
[[nodiscard]] std::string to_html(const std::vector<CheckReport>& reports);

}  // namespace htpipe::check
