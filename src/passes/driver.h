// Runs passes in order, verifies the graph after each and records what each did.
// Invariant: after a run that returned without error the graph verifies, and its inputs and outputs have the names and
// types that they had before.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace htpipe {

/// Called after every pass that changed the graph. An error ends the run, with the pass added to its place.
using PassCheck = std::function<Status(const Graph& graph, std::string_view pass)>;

struct PassOptions {
  /// Steps in order. A step is the name of a pass, or several names with spaces between: a group, which is repeated
  /// until none of its passes finds anything. Empty = default_order().
  std::vector<std::string> order;
  std::vector<std::string> skip;  ///< passes to leave out
  std::string stop_after;         ///< ends the run behind the first run of this pass
  int max_rounds = 8;             ///< of one group
  PassCheck check;
};

/// What became of one pass of one step.
struct PassRecord {
  std::string name;
  int round = 1;  ///< of its group, from 1
  int rewrites = 0;
  std::size_t nodes_before = 0;
  std::size_t nodes_after = 0;
  double time_ms = 0;
  std::vector<std::string> notes;
  bool skipped = false;
  std::string why;  ///< of skipping
};

/// From an imported graph to the form that is quantised and lowered: channel-last, with folded constants, fused
/// activations and as few transposes as there can be.
[[nodiscard]] const std::vector<std::string>& default_order();

/// Rewrites `graph` and returns one record per pass and round, in order. On an error the graph is as the failing pass
/// left it. Errors: usage for an unknown pass name; graph-invalid, those of the operators and those of `check`, with
/// the pass in their place.
Result<std::vector<PassRecord>> run_passes(Graph& graph, const PassOptions& options = {});

}  // namespace htpipe
