// From our graph to what QNN composes: a copy, driven by the operators' own lowering data.
#pragma once

#include "base/result.h"
#include "ir/graph.h"
#include "qnn/graph_spec.h"

namespace htpipe {

/// Upper bound of the ReluMinMax that stands for a relu behind a convolution (between two Reshapes).
inline constexpr float kNoUpperBound = 1e30F;

/// Lowers a channel-last graph. Tensor names are the value names. A fused activation costs nothing where the result is
/// stored as integers (its encoding clamps); on float results it becomes an ElementWiseNeuron of its own, and the
/// producer's result is named <value>_linear. Errors: unsupported-form at the node (channel-first data, no lowering).
Result<qnn::GraphSpec> lower_to_qnn(const Graph& graph);

}  // namespace htpipe
