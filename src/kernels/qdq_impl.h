// The loops of qdq.h, compiled once for each instruction set.
// Invariant: everything is in an unnamed namespace: no two files share a compiled function.
#pragma once

#include <cstdint>

namespace htpipe::kernels {

using QdqF32 = void (*)(float scale, float low, float high, float* data, std::int64_t count);
using QdqRowsF32 = void (*)(const float* scales, float low, float high, float* data, std::int64_t rows,
                            std::int64_t columns);

void qdq_f32_generic(float scale, float low, float high, float* data, std::int64_t count);
void qdq_f32_avx2(float scale, float low, float high, float* data, std::int64_t count);
void qdq_f32_avx512(float scale, float low, float high, float* data, std::int64_t count);
void qdq_rows_f32_generic(const float* scales, float low, float high, float* data, std::int64_t rows,
                          std::int64_t columns);
void qdq_rows_f32_avx2(const float* scales, float low, float high, float* data, std::int64_t rows,
                       std::int64_t columns);
void qdq_rows_f32_avx512(const float* scales, float low, float high, float* data, std::int64_t rows,
                         std::int64_t columns);

namespace {

/// 1.5 × 2^23: adding it leaves no bits behind the point, and the rounding is that of every sum.
constexpr float kRounder = 12582912.0F;

[[maybe_unused]] inline float qdq_one(float x, float scale, float low, float high) {
  float steps = x / scale;
  steps = steps < low ? low : steps;  // in this order NaN passes
  steps = steps > high ? high : steps;
  return ((steps + kRounder) - kRounder) * scale;
}

[[maybe_unused]] inline void qdq_loop(float scale, float low, float high, float* data, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) data[i] = qdq_one(data[i], scale, low, high);
}

[[maybe_unused]] inline void qdq_rows_loop(const float* __restrict scales, float low, float high,
                                           float* __restrict data, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t row = 0; row < rows; ++row, data += columns) {
    for (std::int64_t i = 0; i < columns; ++i) data[i] = qdq_one(data[i], scales[i], low, high);
  }
}

}  // namespace
}  // namespace htpipe::kernels
