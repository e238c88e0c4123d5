// Checks a QNN graph before anything is made of it.
// Invariant: a graph that passes can be handed to the vendor's API without reading outside our memory.
#pragma once

#include "base/result.h"
#include "qnn/graph_spec.h"

namespace htpipe::qnn {

/// Names unique (also after the DLC writer's renaming, see safe_names.h) and usable in C, operands known, producers
/// before consumers, dimensions within the API's 32 bits, encodings complete, static data of the declared size.
/// Errors: graph-invalid with the node or tensor.
Status check(const GraphSpec& graph);

/// One tensor of it. Errors: graph-invalid.
Status check(const TensorSpec& tensor);

}  // namespace htpipe::qnn
