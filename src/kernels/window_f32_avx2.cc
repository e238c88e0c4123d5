#include "kernels/window_f32_impl.h"
