// Advice by the estimates of memory.
#include <fmt/core.h>

#include "check/advice/adviser.h"

namespace htpipe::check {

void advise_memory(Adviser& adviser) {
  const MemoryReport& memory = adviser.memory;
  const auto node_of = [&](const Place& place) -> const Node* {
    const Value* value = adviser.subject.optimised.find_value(place.node);
    return value == nullptr ? nullptr : value->producer;
  };
  if (!memory.pieces.empty()) {
    adviser.add("context-too-large", nullptr, fmt::format("about {} bytes", memory.context_bytes));
  }
  if (memory.spill_bytes > 0) {
    adviser.add("spill", node_of(memory.peak), fmt::format("about {} bytes", memory.spill_bytes),
                Gain{2 * static_cast<double>(memory.spill_bytes), "bytes of DDR traffic"});
  }
  if (!memory.pressure.empty()) {
    const Pressure& worst = memory.pressure.front();
    adviser.add("vtcm-pressure", node_of(worst.place),
                fmt::format("{}, the largest {:.1f} times", memory.pressure.size(), worst.share));
  }
  for (const Growth& one : memory.growth) {
    if (one.what != "size") continue;
    adviser.add("growth", node_of(one.place), fmt::format("{:.1f} times", one.factor),
                Gain{static_cast<double>(one.written), "bytes written"});
    return;  // the rest stands under Memory
  }
}

}  // namespace htpipe::check
