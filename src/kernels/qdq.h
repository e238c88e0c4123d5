// Quantise and dequantise in one go: real numbers, rounded to those that stored integers can stand for.
// Invariant: the same bits on every machine; what float32 makes of (clamp(round(x / scale)) * scale), halves to even.
#pragma once

#include <cstdint>

namespace htpipe::kernels {

/// A grid of real numbers. Bounds are counted from the zero point, in steps; they lie within ±2^21.
struct QdqGrid {
  float scale = 1;
  float low = 0;
  float high = 0;
};

/// In place. NaN stays NaN.
void qdq_f32(const QdqGrid& grid, float* data, std::int64_t count);

/// Rows of `columns` elements, a scale for each column. Bounds are common to all.
void qdq_rows_f32(const float* scales, float low, float high, float* data, std::int64_t rows, std::int64_t columns);

}  // namespace htpipe::kernels
