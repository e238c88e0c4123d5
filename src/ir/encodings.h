// What a graph's values say of their encodings.
#pragma once

#include "ir/graph.h"

namespace htpipe {

/// Whether a value of `graph` has an encoding: a float graph has none, a quantised one has its own.
[[nodiscard]] bool has_encodings(const Graph& graph);

}  // namespace htpipe
