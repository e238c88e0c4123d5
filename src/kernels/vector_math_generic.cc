#include "kernels/vector_math_impl.h"
