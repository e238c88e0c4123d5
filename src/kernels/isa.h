// Which instruction set the kernels use on this machine.
#pragma once

#include <cstdint>

namespace htpipe::kernels {

enum class Isa : std::uint8_t { kGeneric, kAvx2, kAvx512 };

/// The best that this machine has; HTPIPE_ISA ("vnni", "avx512", "avx2", "generic") caps it; VNNI makes a
/// difference for integers alone (fixed/fixed_loops.h). Results do not depend on it.
[[nodiscard]] Isa isa();
/// Its name as HTPIPE_ISA spells it.
[[nodiscard]] const char* isa_name();
/// True when this machine executes code of `wanted`, whatever the cap.
[[nodiscard]] bool isa_runs(Isa wanted);

}  // namespace htpipe::kernels
