// Matrix products, the inner loop of every convolution and fully connected layer.
// Invariant: each output is accumulated in order of k by one multiply and one add a step (no fused multiply-add), so
// results are the same bits on every machine, whatever its vector width, and for any number of threads.
#pragma once

#include <cstdint>
#include <vector>

namespace htpipe::kernels {

/// Columns are padded to a multiple of this, so that every vector width works on whole vectors.
inline constexpr std::int64_t kColumnBlock = 16;

/// A packed right-hand side [k, n] that somebody else owns, padded to whole column blocks: [blocks][k][16].
struct PanelsF32 {
  std::int64_t k = 0;
  std::int64_t n = 0;
  const float* data = nullptr;
};
/// The same with its memory.
struct PackedF32 {
  std::int64_t k = 0;
  std::int64_t n = 0;
  std::vector<float> data;
  operator PanelsF32() const { return {k, n, data.data()}; }  // NOLINT(google-explicit-constructor): a view of it
};
/// Weights [k, n] for gemm_i16, pairs of k interleaved: [blocks][ceil(k/2)][16][2].
struct PackedI16 {
  std::int64_t k = 0;
  std::int64_t n = 0;
  std::vector<std::int16_t> data;
};

/// Floats that a packed [k, n] takes.
[[nodiscard]] std::int64_t packed_count_f32(std::int64_t k, std::int64_t n);
/// Packs element (row, column) = source[row * row_stride + column * column_stride] into `out`. Either stride may be 1:
/// [k, n] as it lies in memory, columns of a wider matrix, or the transpose of [n, k].
void pack_f32(const float* source, std::int64_t k, std::int64_t n, std::int64_t row_stride, std::int64_t column_stride,
              float* out);

/// `weights` is row-major [k, n].
[[nodiscard]] PackedF32 pack_f32(const float* weights, std::int64_t k, std::int64_t n);
[[nodiscard]] PackedI16 pack_i16(const std::int8_t* weights, std::int64_t k, std::int64_t n);

/// c[m, n] = a[m, k] · b; rows of a are `k` apart, rows of c are `n` apart.
void gemm_f32(const float* a, const PanelsF32& b, float* c, std::int64_t m);

/// c[m, n] = a[m, k] · b in 32 bits. Rows of a are `row_stride_i16(k)` apart, with a zero behind an odd k.
/// |a| <= 255 and |b| <= 128, k <= 32768, so that no sum overflows.
void gemm_i16(const std::int16_t* a, const PackedI16& b, std::int32_t* c, std::int64_t m);
[[nodiscard]] inline std::int64_t row_stride_i16(std::int64_t k) { return (k + 1) / 2 * 2; }

/// Which instruction set the products use here: "avx512", "avx2" or "generic". HTPIPE_ISA caps it.
[[nodiscard]] const char* isa_name();

}  // namespace htpipe::kernels
