// From what QNN composes back to our graph: the inverse of qnn_lowering, driven by the same lowering data.
#pragma once

#include "base/result.h"
#include "ir/graph.h"
#include "qnn/graph_spec.h"

namespace htpipe {

/// Value names are the tensor names; inputs and outputs have the spec's order. An ElementWiseNeuron that the lowering
/// made of a fused activation is fused again; that of integers, which their encoding carries, is not there any more.
/// Errors: unsupported-op naming an operator that we do not have; unsupported-form at the node for a parameter or an
/// operand that our operator does not have; graph-invalid where a result has another shape than its operator gives.
Result<Graph> raise_from_qnn(const qnn::GraphSpec& spec);

}  // namespace htpipe
