#include "kernels/qdq.h"

#include "kernels/isa.h"
#include "kernels/qdq_impl.h"

namespace htpipe::kernels {
namespace {

struct Loops {
  QdqF32 plain;
  QdqRowsF32 rows;
};

const Loops& loops() {
  static const Loops chosen = [] {
    switch (isa()) {
      case Isa::kAvx512:
        return Loops{qdq_f32_avx512, qdq_rows_f32_avx512};
      case Isa::kAvx2:
        return Loops{qdq_f32_avx2, qdq_rows_f32_avx2};
      case Isa::kGeneric:
        break;
    }
    return Loops{qdq_f32_generic, qdq_rows_f32_generic};
  }();
  return chosen;
}

}  // namespace

void qdq_f32(const QdqGrid& grid, float* data, std::int64_t count) {
  loops().plain(grid.scale, grid.low, grid.high, data, count);
}

void qdq_rows_f32(const float* scales, float low, float high, float* data, std::int64_t rows, std::int64_t columns) {
  loops().rows(scales, low, high, data, rows, columns);
}

}  // namespace htpipe::kernels
