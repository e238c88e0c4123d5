// Calibration: one streaming pass of the float graph over samples, gathering what range choice needs.
#pragma once

#include <map>
#include <string>

#include "base/result.h"
#include "exec/samples.h"
#include "ir/graph.h"
#include "quant/histogram.h"
#include "quant/range.h"

namespace htpipe::quant {

/// Histogram of every input and computed value of the graph, by value name.
using Statistics = std::map<std::string, Histogram>;

/// Runs all samples. Memory is constant in their number; the result does not depend on the number of threads.
/// Errors: data-not-finite with the sample's index (input) or the node (overflow inside the model), those of `source`.
Result<Statistics> calibrate(const Graph& graph, const SampleSource& source);

/// Range per value name: all that quantisation needs to know of the data.
using Ranges = std::map<std::string, Range>;
[[nodiscard]] Ranges choose_ranges(const Statistics& statistics, RangeMethod method, double percentile, int bits);

}  // namespace htpipe::quant
