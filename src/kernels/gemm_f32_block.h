// One implementation of multiply_block per instruction set; gemm_f32.cc picks at run time.
#pragma once

#include "kernels/gemm_f32.h"

namespace htpipe::kernels {

using MultiplyBlock = void (*)(const BlockProduct& product);

namespace generic {
void multiply_block(const BlockProduct& product);
}
namespace avx2 {
void multiply_block(const BlockProduct& product);
}
namespace avx512 {
void multiply_block(const BlockProduct& product);
}

}  // namespace htpipe::kernels
