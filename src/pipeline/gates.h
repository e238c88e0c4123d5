// The accuracy gates: which layers fail, and what is raised to a higher precision for them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "ir/graph.h"
#include "quant/quantize.h"
#include "target/target.h"

namespace htpipe {

/// Best precision that the chip executes beyond 8 bit: FP16 where it has it, else 16-bit activations, else none.
[[nodiscard]] std::optional<Precision> highest_precision(const Target& target);

/// One decision of the gate loop.
struct Raise {
  std::string node;     ///< node or graph input that is raised
  std::string because;  ///< value whose cosine failed
  Precision to;
};

/// What to raise for the values that failed: their own nodes (a copying operator passes it on to its input); where those
/// are at the top already, the nearest nodes and inputs towards the inputs that are not. Empty = nothing is left to raise. `graph` is the float graph.
[[nodiscard]] std::vector<Raise> raise_precision(const Graph& graph, const std::vector<std::string>& failing,
                                                 const quant::QuantizeOptions& current, Precision top);

/// Values of a layer table (JSON rows of layers.h) whose judged cosine lies below the gate, in graph order.
[[nodiscard]] std::vector<std::string> failing_values(const Json& layers, double gate);
/// The cosine that the gate judges: the emulator's where it ran, else our engine's.
[[nodiscard]] double judged_cosine(const Json& layer);

}  // namespace htpipe
