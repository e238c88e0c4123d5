// The sets behind fixed_loops.h, and what their files need.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "kernels/fixed/fixed_loops.h"

namespace htpipe::kernels {

[[nodiscard]] FixedLoops fixed_loops_generic();
[[nodiscard]] FixedLoops fixed_loops_avx2();
[[nodiscard]] FixedLoops fixed_loops_avx512();
[[nodiscard]] FixedLoops fixed_loops_vnni();

}  // namespace htpipe::kernels
