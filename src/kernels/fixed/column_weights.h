// Weights as the chip multiplies them: centred integers of 8 or 16 bits, and what requantisation needs to know of them.
// Formulas: docs/htp-arithmetic.md, "Weights".
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace htpipe::kernels {

/// Scales of weights, by output column.
struct WeightScales {
  std::vector<float> scales = {};  ///< one for all, or one for each column
  bool per_channel = false;        ///< a scale for each column (there may be just one)
  std::vector<float> growth = {};  ///< what asymmetric weights were divided by to fit, for each column; empty = nothing
  bool deep = false;               ///< 16-bit weights
  bool symmetric = true;           ///< the zero point lies in the middle
};

struct ColumnWeights {
  /// In the order of the tensor: -128 … 127, deep ones -32768 … 32639; kept: -255 … 255.
  std::vector<std::int16_t> values;
  WeightScales scales;
};

/// How elements of a weight tensor belong to output columns: column = element / inner % columns.
struct ColumnOrder {
  std::int64_t columns = 1;
  std::int64_t inner = 1;
};

/// What becomes of asymmetric weights that leave the range of the multiplier.
enum class Excess : std::uint8_t {
  kShrink,  ///< their column is divided by a factor
  kKeep,    ///< nothing yet
};

/// Stored weights `data` of type `type`. Errors: no-fixed-rule for encodings that have no rule.
Result<ColumnWeights> column_weights(const TensorType& type, const void* data, ColumnOrder order,
                                     Excess excess = Excess::kShrink);

/// Excess::kShrink for weights that were kept: columns are those of `weights`, whatever tensor they came from.
void shrink(ColumnOrder order, ColumnWeights& weights);

/// The part of 16-bit weights that is multiplied as 8 bits: value = 256 * high + low.
[[nodiscard]] inline std::int8_t low_part(std::int16_t value) { return static_cast<std::int8_t>(value & 255); }
[[nodiscard]] inline std::int8_t high_part(std::int16_t value) {
  return static_cast<std::int8_t>((value - low_part(value)) / 256);
}

}  // namespace htpipe::kernels
