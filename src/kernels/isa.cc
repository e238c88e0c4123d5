#include "kernels/isa.h"

#include <cstdlib>
#include <string_view>

namespace htpipe::kernels {

bool isa_runs(Isa wanted) {
  __builtin_cpu_init();
  if (wanted == Isa::kGeneric) return true;
  // Every machine with AVX2 has fused multiply-add but a few of VIA's.
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0) return false;
  if (wanted == Isa::kAvx2) return true;
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
}

Isa isa() {
  static const Isa chosen = [] {
    const char* text = std::getenv("HTPIPE_ISA");
    const std::string_view cap = text != nullptr ? text : "avx512";
    if ((cap == "avx512" || cap == "vnni") && isa_runs(Isa::kAvx512)) return Isa::kAvx512;
    return cap != "generic" && isa_runs(Isa::kAvx2) ? Isa::kAvx2 : Isa::kGeneric;
  }();
  return chosen;
}

const char* isa_name() {
  switch (isa()) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kGeneric:
      break;
  }
  return "generic";
}

}  // namespace htpipe::kernels
