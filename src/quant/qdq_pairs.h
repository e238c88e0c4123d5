// The nodes of a model in QDQ form: what from_qdq takes apart before it builds the stored graph.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "ir/graph.h"

namespace htpipe::quant {

/// Stored types by the name of the float value that they belong to.
using Stored = std::map<std::string, TensorType>;

[[nodiscard]] inline bool same_storage(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.encoding == b.encoding;
}

[[nodiscard]] inline bool has_encoding(const Value* value) {
  return value != nullptr && value->type.encoding.has_value();
}

/// Lets every user of Dequantize(Quantize(x)) take x, and says how x is stored. A value that is stored in two ways keeps
/// the nodes of the second.
[[nodiscard]] Stored strip_pairs(Graph& graph);

/// The stored integers behind a weight: a constant with an encoding, dequantised and moved.
[[nodiscard]] std::optional<Tensor> stored_constant(const Value* value);

/// A product with a stored matrix of weights, whose result is not stored before its bias is added or whose weights have
/// a scale per channel, becomes a FullyConnected: what the chip has for it.
Status join_products(Graph& graph, const Stored& stored);

}  // namespace htpipe::quant
