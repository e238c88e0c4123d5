// Matrix products of integers, the inner loop of the fixed-point convolutions and fully connected layers.
#pragma once

#include <cstdint>
#include <vector>

namespace htpipe::kernels {

/// Columns are padded to a multiple of this, so that every vector width works on whole vectors.
inline constexpr std::int64_t kColumnBlock = 16;

/// Weights [k, n] for gemm_i16, pairs of k interleaved: [blocks][ceil(k/2)][16][2].
struct PackedI16 {
  std::int64_t k = 0;
  std::int64_t n = 0;
  std::vector<std::int16_t> data;
};

/// `weights` is row-major [k, n].
[[nodiscard]] PackedI16 pack_i16(const std::int8_t* weights, std::int64_t k, std::int64_t n);

/// c[m, n] = a[m, k] · b in 32 bits. Rows of a are `row_stride_i16(k)` apart, with a zero behind an odd k.
/// |a| <= 255 and |b| <= 128, k <= 32768, so that no sum overflows.
void gemm_i16(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m);
[[nodiscard]] inline std::int64_t row_stride_i16(std::int64_t k) { return (k + 1) / 2 * 2; }

}  // namespace htpipe::kernels
