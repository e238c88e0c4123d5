// Which parts of a graph run on the chip and which elsewhere, and what has to cross between them.
// Invariant: every node is in exactly one part, and a part takes values only of parts before it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "check/report.h"
#include "ir/graph.h"

namespace htpipe::check {

struct Partition {
  std::vector<Part> parts;
  std::vector<Cut> cuts;
  std::map<std::string, int, std::less<>> part_of;  ///< by node of the graph
};

/// Every node goes into the earliest part of its engine, so there are as few parts as the longest chain of changes asks
/// for. `assumed` says how values are stored on the chip.
[[nodiscard]] Partition partition(const Graph& optimised, const Graph& assumed,
                                  const std::function<bool(const Node&)>& on_chip);

}  // namespace htpipe::check
