// Pairs of nodes that the HTP computes as one, so that its answer is not that of the two.
#pragma once

#include <optional>

#include "ir/graph.h"

namespace htpipe::ops {

/// The fixed-point kernel of a node that the chip joins with one before it; nothing where it does not.
/// Errors: no-fixed-rule.
Result<std::optional<Kernel>> fused_kernel(const Node& node);

}  // namespace htpipe::ops
