// Runs passes in order, verifies the graph after each and records what each did.
// Invariant: after a run that returned without error the graph verifies, and its inputs and outputs have the names and
// types that they had before.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "ir/graph.h"
#include "passes/order.h"

namespace htpipe {

/// Called after every pass that changed the graph. An error ends the run, with the pass added to its place.
using PassCheck = std::function<Status(const Graph& graph, std::string_view pass)>;

/// What became of one pass of one step.
struct PassRecord {
  std::string name;
  int number = 0;  ///< of this run of a pass, from 1; 0 = it did not run
  int round = 1;   ///< of its group, from 1
  int rewrites = 0;
  std::size_t nodes_before = 0;
  std::size_t nodes_after = 0;
  double time_ms = 0;
  std::vector<std::string> notes;
  bool skipped = false;
  std::string why;  ///< of skipping
};

/// Called after every run of a pass, before the graph is verified: what is wrong can be looked at. An error ends the run.
using PassObserver = std::function<Status(const PassRecord& record, const Graph& graph)>;

struct PassOptions {
  PassOrder order;                ///< empty = default_order()
  std::vector<std::string> skip;  ///< passes to leave out
  std::string stop_after;         ///< ends the run behind the first run of this pass; empty = none
  int stop_after_run = 0;         ///< ends it behind the run of this number; 0 = none
  int max_rounds = 8;             ///< of one group
  PassCheck check;
  PassObserver observer;
};

/// Rewrites `graph` and returns one record per pass and round, in order. On an error the graph is as the failing pass
/// left it. Errors: usage for an unknown pass name; graph-invalid, those of the operators and those of `check`, with
/// the pass in their place.
Result<std::vector<PassRecord>> run_passes(Graph& graph, const PassOptions& options = {});

/// An observer that writes the graph as NNN_PASS.htir into `folder`, with the run's number, after every run that changed
/// it. Errors of it: output-unwritable.
[[nodiscard]] PassObserver dump_into(std::filesystem::path folder);

/// One object per record, as reports and `--json` hold it.
[[nodiscard]] Json to_json(const std::vector<PassRecord>& records);

}  // namespace htpipe
