#include "kernels/window_f32.h"

#include "kernels/isa.h"

namespace htpipe::kernels {

void run_window_line(const WindowLine& line) {
  static const RunWindowLine function = isa() == Isa::kAvx512 ? avx512::run_window_line
                                        : isa() == Isa::kAvx2 ? avx2::run_window_line
                                                              : generic::run_window_line;
  function(line);
}

}  // namespace htpipe::kernels
