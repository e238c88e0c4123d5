// Memory that a model needs on a chip, estimated without compiling it.
// Invariant: every number is in bytes of the types that the chip would get (Subject::assumed).
#pragma once

#include <cstdint>

#include "base/json.h"
#include "check/subject.h"

namespace htpipe::check {

struct MemoryReport {
  std::uint64_t weight_bytes = 0;           ///< of all constants
  std::uint64_t peak_activation_bytes = 0;  ///< largest sum of values that are alive at once
};

[[nodiscard]] MemoryReport estimate_memory(const Subject& subject);
[[nodiscard]] Json to_json(const MemoryReport& memory);

}  // namespace htpipe::check
