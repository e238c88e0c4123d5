// What is judged: a model in the three forms that the checks look at, on one chip.
// Invariant: no check reads the bytes of a large constant; weights stay mapped from their file (see quant/assume.h).
#pragma once

#include "ir/graph.h"
#include "target/rules.h"
#include "target/target.h"

namespace htpipe::check {

/// Refers to graphs that outlive it.
struct Subject {
  const Graph& imported;   ///< as the user wrote it
  const Graph& optimised;  ///< behind the passes, channel-last, still in float (or quantised, if the file was)
  /// What the chip would get: stored types, conversions, 8-bit weights. Encodings and the bytes of large constants are
  /// made up. Nodes that cannot get a type are left out; their results are inputs.
  const Graph& assumed;
  const Target& target;
  Precision precision;
};

}  // namespace htpipe::check
