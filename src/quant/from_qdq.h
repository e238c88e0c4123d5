// From float nodes between Quantize and Dequantize nodes, which is what ONNX models in QDQ form are imported as, to a
// graph of stored integers, which is what the chip executes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace htpipe::quant {

struct StoredGraph {
  Graph graph;
  /// Nodes that stay in float, each with the reason: nobody says how their results are stored.
  std::vector<std::string> kept;
};

/// Whether the only nodes with encodings are Quantize and Dequantize, and there are some.
[[nodiscard]] bool is_qdq(const Graph& graph);

/// Every scale and zero point is taken as it is; nothing is quantised again but float biases and constant operands that
/// the model leaves in float. The graph is optimised on the way, so it is channel-last. Inputs and outputs keep their
/// names; what the model quantises at its inputs and dequantises at its outputs is stored there. Errors: those of the
/// passes and of the operators.
Result<StoredGraph> from_qdq(Graph graph);

}  // namespace htpipe::quant
