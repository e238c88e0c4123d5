#include "check/memory.h"

#include <nlohmann/json.hpp>

#include "exec/memory_plan.h"

namespace htpipe::check {

MemoryReport estimate_memory(const Subject& subject) {
  MemoryReport memory;
  for (const auto& value : subject.assumed.values()) {
    if (value->is_constant()) memory.weight_bytes += value->type.size_bytes();
  }
  memory.peak_activation_bytes = plan_memory(subject.assumed).live_bytes;
  return memory;
}

Json to_json(const MemoryReport& memory) {
  return {{"weight_bytes", memory.weight_bytes}, {"peak_activation_bytes", memory.peak_activation_bytes}};
}

}  // namespace htpipe::check
