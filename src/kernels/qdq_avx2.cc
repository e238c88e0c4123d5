#include "kernels/qdq_impl.h"

namespace htpipe::kernels {

void qdq_f32_avx2(float scale, float low, float high, float* data, std::int64_t count) {
  qdq_loop(scale, low, high, data, count);
}

void qdq_rows_f32_avx2(const float* scales, float low, float high, float* data, std::int64_t rows,
                       std::int64_t columns) {
  qdq_rows_loop(scales, low, high, data, rows, columns);
}

}  // namespace htpipe::kernels
