// Which nodes only give the bytes of their operand another shape.
#pragma once

#include "ir/graph.h"

namespace htpipe::ops {

/// True when the first result has the bytes of operand 0, in the same order: an executor may let both share memory
/// instead of running the node.
[[nodiscard]] bool keeps_bytes(const Node& node);

}  // namespace htpipe::ops
