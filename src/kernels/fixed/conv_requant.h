// From the integer sum of a convolution to its stored output, as the HTP does it.
// Formulas: docs/htp-arithmetic.md, "Convolution family". Zero points here are positive (real = (q - zero) * scale).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/fixed/column_weights.h"
#include "tensor/tensor.h"

namespace htpipe::kernels {

/// How one layer of the family is computed on the chip.
enum class ConvForm : std::uint8_t {
  kStandard,  ///< Conv2d, FullyConnected, MatMul, TransposeConv2d, DepthWiseConv2d with stride 1 or 3
  kNoShift,   ///< DepthWiseConv2d with stride 2, and 16-bit 1x1: no shift before the multiplication
  /// In single precision: Conv2d with stride and dilation, 8-bit 1x1 DepthWiseConv2d on v68, channel multipliers, batched
  /// products with a sign.
  kExact,
};

/// Constants of one output channel.
struct ChannelRequant {
  std::int64_t bias = 0;  ///< added to the (possibly shifted) sum
  int shift = 0;          ///< arithmetic shift of the sum before the multiplication
  std::int64_t multiplier = 0;
  int multiplier_shift = 0;
  bool rounds = true;          ///< kNoShift: half up; else down
  std::int64_t zero_term = 0;  ///< u16: (zx * sum of weights) >> 8, or >> 16 with 16-bit weights, rounded
  float real_multiplier = 0;   ///< kExact
  float real_bias = 0;
};

class ConvRequant {
 public:
  struct Request {
    const TensorType& input;
    const WeightScales& weights;
    const TensorType& output;
    std::span<const std::int32_t> bias;         ///< stored bias per output channel; empty = none
    std::span<const std::int64_t> weight_sums;  ///< sum of the weights per output channel (u16 only)
    float bias_scale = 0;                       ///< honoured for per-tensor weights only, as on the chip
    std::int64_t channels = 0;
    ConvForm form = ConvForm::kStandard;
    int htp_version = 73;
  };
  /// Errors: no-fixed-rule for type combinations that have none.
  static Result<ConvRequant> make(const Request& request);

  /// True when the sum must be taken over uncentred inputs (16-bit activations).
  [[nodiscard]] bool uncentred() const { return wide_ && !stride2_ && !exact_; }
  /// Stored output of channel `channel` for the exact integer sum.
  [[nodiscard]] std::int64_t apply(std::int64_t sum, std::size_t channel) const;

 private:
  friend class RowRequant;  // the same arithmetic on whole rows

  std::vector<ChannelRequant> channels_;
  bool wide_ = false;
  bool deep_ = false;
  bool exact_ = false;
  bool stride2_ = false;
  bool v68_ = false;
  std::int64_t zero_ = 0;
  std::int64_t low_ = 0;
  std::int64_t high_ = 255;
  std::int64_t signed_offset_ = 0;
};

}  // namespace htpipe::kernels
