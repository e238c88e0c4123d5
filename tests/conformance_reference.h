// What every operator means, in plain loops in double precision: the oracle of the float engine.
// Invariant: nothing here calls an operator's kernel.
#pragma once

#include <vector>

#include "ir/graph.h"

namespace htpipe::conformance {

/// The outputs of a float graph, element by element, in the order of graph.outputs().
[[nodiscard]] std::vector<std::vector<double>> reference(const Graph& graph, const std::vector<Tensor>& inputs);

}  // namespace htpipe::conformance
