// Whether a graph still computes what another one, or a file, says: how passes are checked by execution.
// Invariant: same graph, same samples: same answer, whatever the number of threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/samples.h"
#include "ir/graph.h"

namespace htpipe {

/// The outputs of a graph in the order of graph.outputs(), as float32, for sample after sample.
using OutputValues = std::vector<std::vector<float>>;

/// Runs the float engine on all samples, one at a time on all threads. Errors: those of Program.
Result<OutputValues> outputs_of(const Graph& graph, const SampleSource& samples);

/// The largest difference of the outputs from `wanted`, each relative to the largest finite magnitude of its output where
/// that is above 1. Equal infinities and two NaNs are equal; a value that should be finite and is not, or the reverse, is
/// infinitely far.
[[nodiscard]] double largest_difference(const OutputValues& wanted, const OutputValues& found);

/// Errors: pass-changed-result at the worst output when it differs by more than `tolerance`, measured as
/// largest_difference does. `graph` gives the names.
Status same_outputs(const Graph& graph, const OutputValues& wanted, const OutputValues& found, double tolerance);

/// `count` samples for the inputs of `graph`, the same for the same graph: real numbers from [-1, 1), integers and bools 0
/// or 1, which are tokens, masks and indices of every model.
[[nodiscard]] SampleSource made_up_samples(const Graph& graph, std::int64_t count);

/// The same samples with every float32 input moved to one of its two neighbours, by a seeded coin: what the outputs differ
/// by then is what rounding alone may do to the model.
[[nodiscard]] SampleSource nudged_samples(SampleSource samples);

}  // namespace htpipe
