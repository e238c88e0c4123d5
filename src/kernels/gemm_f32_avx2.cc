#include "kernels/gemm_f32_impl.h"
