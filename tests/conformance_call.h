// A node with numbers, as the plain reference loops see it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace htpipe::conformance {

using Numbers = std::vector<double>;
using Index = std::int64_t;

/// A node with the numbers of its operands.
struct Call {
  const Node& node;
  std::vector<const Numbers*> in;

  [[nodiscard]] const Shape& shape(std::size_t i) const { return node.operands[i]->type.shape; }
  [[nodiscard]] const Shape& out_shape() const { return node.result()->type.shape; }
  [[nodiscard]] const Attributes& attributes() const { return node.attributes; }
  [[nodiscard]] bool nhwc() const { return attributes().text("data_layout") == "nhwc"; }
};

inline std::size_t at(Index i) { return static_cast<std::size_t>(i); }

/// Index along every axis of element `i`.
inline Shape unravel(const Shape& shape, Index i) {
  Shape position(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    position[axis] = i % shape[axis];
    i /= shape[axis];
  }
  return position;
}

/// Softmax, norms and Resize (conformance_normalised.cc); nullopt for another operator.
std::optional<Numbers> normalised(const Call& call);
/// The elementwise operators (conformance_elementwise.cc); nullopt for another operator.
std::optional<Numbers> elementwise(const Call& call);

}  // namespace htpipe::conformance
