// Functions of floats over arrays: exponentials, sigmoids, softmax, normalisation, arithmetic of two operands.
// Invariant: own polynomials over kernels/vector16.h, the same operations in the same order on every instruction set, so
// results are the same bits everywhere; nothing comes from the C library. Sums run in sixteen lanes that are folded in a
// fixed tree every 64 vectors, and from there in double precision.
#pragma once

#include <cstdint>

#include "kernels/gemm_f32.h"

namespace htpipe::kernels {

enum class Unary32 : std::uint8_t { kExp, kErf, kTanh, kSigmoid, kGelu, kGeluTanh, kHardSwish };
enum class Binary32 : std::uint8_t { kAdd, kSubtract, kMultiply, kDivide, kMaximum, kMinimum };

/// Rows of `count` neighbours, `rows` of them one behind the other.
struct SoftmaxRows {
  const float* in;
  float* out;
  std::int64_t rows;
  std::int64_t count;
  float beta;  ///< factor of the input
};

/// (x - mean) / sqrt(variance + epsilon) * gamma + beta over each row; null gamma and beta are 1 and 0. `centred` false:
/// x / sqrt(mean of squares + epsilon) instead.
struct NormRows {
  const float* in;
  float* out;
  std::int64_t rows;
  std::int64_t count;
  const float* gamma;
  const float* beta;
  double epsilon;
  bool centred;
};

/// out[i] = clamp(a[i] op b[i]); an operand that repeats gives its first element for all. NaN goes on.
struct BinaryRun {
  Binary32 operation;
  const float* a;
  const float* b;
  bool repeats_a;
  bool repeats_b;
  float* out;
  std::int64_t count;
  float low;
  float high;
};

/// The functions above for one instruction set.
struct VectorMath {
  /// Errors are at most 2.5 units in the last place; of gelu 5 and of gelu_tanh 8, of the larger of result and 2^-7.
  void (*map)(Unary32 function, const float* in, float* out, std::int64_t count);
  void (*softmax)(const SoftmaxRows& rows);
  void (*norm)(const NormRows& rows);
  void (*binary)(const BinaryRun& run);
};
/// Those that this machine runs best.
[[nodiscard]] const VectorMath& vector_math();

namespace generic {
extern const VectorMath kVectorMath;
}
namespace avx2 {
extern const VectorMath kVectorMath;
}
namespace avx512 {
extern const VectorMath kVectorMath;
}

}  // namespace htpipe::kernels
