// From a float graph and ranges to a graph of stored integers (and FP16 islands).
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"
#include "ir/graph.h"
#include "quant/calibrate.h"
#include "target/rules.h"

namespace htpipe::quant {

/// Stored type of activations: u8 (with s8 per-channel weights and s32 bias), u16 (the same), f16 (everything f16).
[[nodiscard]] DType storage_of(Precision precision);

/// Precision by node name (or the name of a graph input).
using PrecisionMap = std::map<std::string, Precision>;

/// What shares a scale among the weights of an integer layer.
enum class WeightScale : std::uint8_t {
  kChannel,     ///< a symmetric scale for each channel
  kTensor,      ///< one symmetric scale
  kAsymmetric,  ///< one scale and a zero point, 8 bits
};

struct QuantizeOptions {
  Precision default_precision = Precision::kInt8;
  int weight_bits = 8;  ///< 4, 8 or 16, of integer layers; 16 where activations have 16 bits, elsewhere 8
  WeightScale weight_scale = WeightScale::kChannel;
  /// Input channels that share a scale of 4-bit weights, in linear layers and 1x1 convolutions that have whole blocks; 0 =
  /// no blocks.
  std::int64_t weight_block = 0;
  bool signed_activations = false;  ///< i8 and i16 instead of u8 and u16
  PrecisionMap precisions;
  /// Products of two computed operands may have 16 bits on both sides (not on v68); else the second one gets 8 bits.
  bool wide_products = true;
  /// Constants that quant/assume.h calls unread are taken by their type alone.
  bool types_only = false;
};

/// Builds the quantised graph. Value names stay; conversions between precisions are inserted once per value and
/// precision and named <value>_<dtype>. Operators that copy stored values keep the encoding and precision of their input.
/// Graph inputs have a precision like nodes. Biases that would not fit 32 bits, and
/// channels whose weights are all zero, get a larger scale.
/// Errors: no-encoding (at the value); unsupported-form (at the node).
Result<Graph> quantize(const Graph& graph, const Ranges& ranges, const QuantizeOptions& options);

/// Precision of every node of a quantised graph by the type of its result, conversions left out.
[[nodiscard]] PrecisionMap precisions_of(const Graph& quantized);

/// A real tensor stored by `type` (integers by the encoding, round half to even and clamped; f16; f32).
[[nodiscard]] Tensor store_as(const Tensor& real, const TensorType& type);

}  // namespace htpipe::quant
