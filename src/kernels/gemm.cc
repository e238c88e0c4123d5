#include "kernels/gemm.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "kernels/gemm_impl.h"

namespace htpipe::kernels {
namespace {

struct Isa {
  const char* name;
  GemmF32 f32;
  GemmI16 i16;
};

const Isa& isa() {
  static const Isa chosen = [] {
    const char* text = std::getenv("HTPIPE_ISA");
    const std::string_view cap = text != nullptr ? text : "avx512";
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") != 0;
    const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                        __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
    if (avx512 && cap == "avx512") return Isa{"avx512", gemm_f32_avx512, gemm_i16_avx512};
    if (avx2 && cap != "generic") return Isa{"avx2", gemm_f32_avx2, gemm_i16_avx2};
    return Isa{"generic", gemm_f32_generic, gemm_i16_generic};
  }();
  return chosen;
}

std::int64_t column_blocks(std::int64_t n) { return (n + kColumnBlock - 1) / kColumnBlock; }

}  // namespace

const char* isa_name() { return isa().name; }

void gemm_f32(const float* a, const PanelsF32& b, float* c, std::int64_t m) { isa().f32(a, b, c, m); }
void gemm_i16(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m) { isa().i16(a, b, c, m); }

std::int64_t packed_count_f32(std::int64_t k, std::int64_t n) { return column_blocks(n) * k * kColumnBlock; }

void pack_f32(const float* source, std::int64_t k, std::int64_t n, std::int64_t row_stride, std::int64_t column_stride,
              float* out) {
  for (std::int64_t first = 0; first < n; first += kColumnBlock) {
    const std::int64_t columns = std::min(n - first, kColumnBlock);
    for (std::int64_t row = 0; row < k; ++row, out += kColumnBlock) {
      const float* line = source + row * row_stride + first * column_stride;
      if (column_stride == 1) {
        std::copy_n(line, columns, out);
      } else {
        for (std::int64_t col = 0; col < columns; ++col) out[col] = line[col * column_stride];
      }
      std::fill(out + columns, out + kColumnBlock, 0.0F);
    }
  }
}

PackedF32 pack_f32(const float* weights, std::int64_t k, std::int64_t n) {
  PackedF32 packed{k, n, std::vector<float>(static_cast<std::size_t>(packed_count_f32(k, n)))};
  pack_f32(weights, k, n, n, 1, packed.data.data());
  return packed;
}

PackedI16 pack_i16(const std::int8_t* weights, std::int64_t k, std::int64_t n) {
  const std::int64_t pairs = (k + 1) / 2;
  PackedI16 packed{k, n,
                   std::vector<std::int16_t>(static_cast<std::size_t>(column_blocks(n) * pairs * kColumnBlock * 2), 0)};
  for (std::int64_t row = 0; row < k; ++row) {
    for (std::int64_t col = 0; col < n; ++col) {
      const std::int64_t block = col / kColumnBlock;
      const std::int64_t at = ((block * pairs + row / 2) * kColumnBlock + col % kColumnBlock) * 2 + row % 2;
      packed.data[static_cast<std::size_t>(at)] = weights[row * n + col];
    }
  }
  return packed;
}

}  // namespace htpipe::kernels
