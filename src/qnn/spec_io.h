// A QNN graph as two files, graph.json and weights.bin: how it reaches the vendor worker.
// Invariant: reading never trusts an offset or a size; the weights are mapped, not copied.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "qnn/graph_spec.h"

namespace htpipe::qnn {

/// Writes `graph` into `folder` (created if missing). Same graph, same bytes. Errors: output-unwritable.
Status write_spec(const std::filesystem::path& folder, const GraphSpec& graph);

/// Reads it back. Static tensors borrow the mapped weights file. Does not check the graph's rules (see spec_check.h).
/// Errors: file-missing, json-invalid, json-shape, file-truncated.
Result<GraphSpec> read_spec(const std::filesystem::path& folder);

}  // namespace htpipe::qnn
