#include "kernels/gemm.h"

#include "kernels/gemm_impl.h"
#include "kernels/isa.h"

namespace htpipe::kernels {
namespace {

GemmI16 chosen() {
  switch (isa()) {
    case Isa::kAvx512:
      return gemm_i16_avx512;
    case Isa::kAvx2:
      return gemm_i16_avx2;
    case Isa::kGeneric:
      break;
  }
  return gemm_i16_generic;
}

std::int64_t column_blocks(std::int64_t n) { return (n + kColumnBlock - 1) / kColumnBlock; }

}  // namespace

void gemm_i16(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m) {
  static const GemmI16 function = chosen();
  function(a, b, c, m);
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
