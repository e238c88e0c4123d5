// A set of inputs for a graph, read one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace htpipe {

/// `get(i)` gives the graph's inputs of sample i, in the order of graph.inputs(); it may be called from any thread.
struct SampleSource {
  std::int64_t count = 0;
  std::function<Result<std::vector<Tensor>>(std::int64_t index)> get;
};

}  // namespace htpipe
