// Lookup in a QNN graph.
#include "qnn/graph_spec.h"

#include <algorithm>

namespace htpipe::qnn {

const TensorSpec* GraphSpec::find(std::string_view tensor) const {
  const auto at =
      std::find_if(tensors.begin(), tensors.end(), [tensor](const TensorSpec& t) { return t.name == tensor; });
  return at == tensors.end() ? nullptr : &*at;
}

}  // namespace htpipe::qnn
