#include "kernels/gemm_f32.h"

#include "kernels/gemm_f32_block.h"
#include "kernels/isa.h"

namespace htpipe::kernels {
namespace {

struct Functions {
  MultiplyBlock multiply_block;
  CopyRows copy_rows;
};

const Functions& functions() {
  static const Functions chosen = [] {
    switch (isa()) {
      case Isa::kAvx512:
        return Functions{avx512::multiply_block, avx512::copy_rows};
      case Isa::kAvx2:
        return Functions{avx2::multiply_block, avx2::copy_rows};
      case Isa::kGeneric:
        break;
    }
    return Functions{generic::multiply_block, generic::copy_rows};
  }();
  return chosen;
}

}  // namespace

void multiply_block(const BlockProduct& product) { functions().multiply_block(product); }

void copy_rows(const float* source, std::int64_t stride, std::int64_t rows, std::int64_t steps, float* block) {
  functions().copy_rows(source, stride, rows, steps, block);
}

void gemm_f32(const float* a, const PanelsF32& b, float* c, std::int64_t m) {
  // As many rows as have room on the stack.
  alignas(64) float block[kRowTile * kBlockStride];
  for (std::int64_t row = 0; row < m; row += kRowTile) {
    gemm_f32(RowsF32{a + row * b.k, b.k}, b, 0, b.panels(), c + row * b.n, b.n, std::min(kRowTile, m - row), {}, block);
  }
}

std::int64_t packed_count_f32(std::int64_t k, std::int64_t n) { return PanelsF32{k, n}.panels() * k * kPanel; }

void pack_f32(const float* source, std::int64_t k, std::int64_t n, std::int64_t row_stride, std::int64_t column_stride,
              float* out) {
  for (std::int64_t first = 0; first < n; first += kPanel) {
    const std::int64_t columns = std::min(n - first, kPanel);
    for (std::int64_t row = 0; row < k; ++row, out += kPanel) {
      const float* line = source + row * row_stride + first * column_stride;
      if (column_stride == 1 && columns == kPanel) {
        std::copy_n(line, kPanel, out);
        continue;
      }
      for (std::int64_t col = 0; col < columns; ++col) out[col] = line[col * column_stride];
      std::fill(out + columns, out + kPanel, 0.0F);
    }
  }
}

PackedF32 pack_f32(const float* weights, std::int64_t k, std::int64_t n) {
  PackedF32 packed{k, n, std::vector<float>(static_cast<std::size_t>(packed_count_f32(k, n)))};
  pack_f32(weights, k, n, n, 1, packed.data.data());
  return packed;
}

}  // namespace htpipe::kernels
