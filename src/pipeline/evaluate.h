// Task accuracy on our engine: top-1 classes over many samples, on all cores.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "exec/samples.h"
#include "ir/graph.h"

namespace htpipe {

/// Index of the largest element of the first output for every sample. Errors: those of the engine and of the source;
/// interrupted.
Result<std::vector<std::int64_t>> predict(const Graph& graph, int htp_version, const SampleSource& samples,
                                          std::string_view what);

/// Share of equal entries of the first `labels.size()` (or fewer) predictions.
[[nodiscard]] double share_equal(std::span<const std::int64_t> predictions, std::span<const std::int64_t> labels);

}  // namespace htpipe
