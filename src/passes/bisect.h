// Finds the run of a pass behind which a comparison fails first.
// Invariant: the graph is made anew for every trial, so that nothing of one trial reaches the next.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/result.h"
#include "passes/driver.h"

namespace htpipe {

/// Whether a graph still computes what it should. An error says how it does not.
using GraphComparison = std::function<Status(const Graph& graph)>;

struct Bisection {
  /// The first run behind which the comparison fails, with its pass, round, rewrites and notes; empty = the comparison
  /// holds behind the last pass.
  std::optional<PassRecord> culprit;
  std::optional<Error> error;  ///< what the comparison, or the pass itself, said there
  int runs = 0;                ///< of passes, in the whole order
  int trials = 0;              ///< graphs that were made and compared
  /// With the culprit's pass left out altogether the comparison holds behind the last pass.
  bool holds_without = false;
};

/// Runs the passes on a copy of `imported` and, where `holds` fails on the result, searches by halves for the first run of
/// a pass that makes it fail. A pass that ends in an error counts as failing. Where the comparison fails, holds again and
/// fails once more, one such place is found: holding in front of it and failing behind it. `options.check` and
/// `options.observer` are not called.
/// Errors: usage as run_passes; what `holds` says of `imported` itself.
Result<Bisection> bisect_passes(const Graph& imported, const PassOptions& options, const GraphComparison& holds);

}  // namespace htpipe
