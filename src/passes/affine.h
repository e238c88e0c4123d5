// Scaling and shifting of output channels, taken into the weights and the bias of the layer in front:
// (x * w + b) * scale + shift = x * (w * scale) + (b * scale + shift), per output channel.
// Invariant: only when nothing else sees the result of that layer, and only with constant operands.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "ir/graph.h"

namespace htpipe::passes {

/// The layer in front, and where it keeps what a fold changes.
struct AffineProducer {
  Node* node;
  std::size_t weight;       ///< operand
  std::size_t bias;         ///< operand, may be absent
  std::size_t weight_axis;  ///< of output channels
  std::int64_t channels;
};

/// Axis of the channels of a layer's result, or of a Batchnorm's.
[[nodiscard]] std::size_t channel_axis(const Node& node);

/// The layer that makes `value` for its only user and can take a scale and a shift; nullopt when there is none.
[[nodiscard]] std::optional<AffineProducer> affine_producer(const Graph& graph, const Value* value);

/// Scales the outputs of a layer per channel, and shifts them; an empty `shift` is zeros.
void scale_layer(Graph& graph, const AffineProducer& layer, std::span<const float> scale, std::span<const float> shift);

/// Folds `node`, which scales and shifts the producer's result per channel, into the producer. A sentence about it.
std::string fold_affine_node(Graph& graph, const AffineProducer& producer, Node* node, std::span<const float> scale,
                             std::span<const float> shift);

}  // namespace htpipe::passes
