#include "ir/encodings.h"

#include <algorithm>

namespace htpipe {

bool has_encodings(const Graph& graph) {
  return std::any_of(graph.values().begin(), graph.values().end(),
                     [](const auto& value) { return value->type.encoding.has_value(); });
}

}  // namespace htpipe
