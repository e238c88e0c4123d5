// The types that a float graph would get on the chip, for checks that run before calibration.
// Invariant: the bytes of a constant of more than kReadElements elements are not touched.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "ir/graph.h"
#include "quant/quantize.h"
#include "quant/weights.h"

namespace htpipe::quant {

/// Constants of more elements are taken by their type. Smaller ones may decide what an operator does (indices, axes).
inline constexpr std::int64_t kReadElements = 4096;

[[nodiscard]] bool is_unread(const Tensor& constant);

/// A constant of which only the type counts: zeros, which take no memory until somebody reads them.
[[nodiscard]] Tensor unread(TensorType type);

/// Weights (with channels) and bias of an integer layer as quantize_parameters would type them, with made-up scales.
[[nodiscard]] Parameters assumed_parameters(const TensorType& weight, const Tensor& bias, int channel_axis,
                                            float input_scale, int bits);

/// The quantised graph with made-up ranges and weights: as quantize, but no calibration and no weight is needed.
/// Errors: those of quantize, at the node.
Result<Graph> assume_types(const Graph& graph, QuantizeOptions options);

}  // namespace htpipe::quant
