// Simulated quantisation: float32 values rounded to what they would be if they were stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "tensor/tensor.h"

namespace htpipe {

/// How a value would be stored: integers by an encoding.
struct StoredAs {
  DType dtype = DType::kU8;
  Encoding encoding;
};

/// A rounding made ready for values of one shape. Const and thread-safe.
class Simulation {
 public:
  /// Errors: unsupported-form (no float32, no integers of up to 16 bits, an axis that is not there, blocks).
  static Result<Simulation> make(const TensorType& type, const StoredAs& stored);

  /// Rounds in place, on up to `lanes` threads. The same bits for any number.
  void apply(float* data, int lanes) const;

 private:
  std::vector<float> scales_;  ///< one, or one per channel
  std::vector<float> low_;     ///< from the zero point, in steps
  std::vector<float> high_;
  std::int64_t outer_ = 1;  ///< data are [outer, channels, inner]
  std::int64_t channels_ = 1;
  std::int64_t inner_ = 1;
};

}  // namespace htpipe
