// What gemm_f32 does once per instruction set; gemm_f32.cc picks at run time.
#pragma once

#include "kernels/gemm_f32.h"

namespace htpipe::kernels {

using MultiplyBlock = void (*)(const BlockProduct& product);
using CopyRows = void (*)(const float* source, std::int64_t stride, std::int64_t rows, std::int64_t steps,
                          float* block);

namespace generic {
void multiply_block(const BlockProduct& product);
void copy_rows(const float* source, std::int64_t stride, std::int64_t rows, std::int64_t steps, float* block);
}  // namespace generic
namespace avx2 {
void multiply_block(const BlockProduct& product);
void copy_rows(const float* source, std::int64_t stride, std::int64_t rows, std::int64_t steps, float* block);
}  // namespace avx2
namespace avx512 {
void multiply_block(const BlockProduct& product);
void copy_rows(const float* source, std::int64_t stride, std::int64_t rows, std::int64_t steps, float* block);
}  // namespace avx512

}  // namespace htpipe::kernels
