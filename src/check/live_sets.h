// What is alive while each node runs: the basis of every estimate of memory.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"

namespace htpipe::check {

/// One node in the order in which the memory planner runs the graph. All sizes in bytes of the graph's types.
struct LiveStep {
  const Node* node = nullptr;
  std::uint64_t read = 0;     ///< of the values that it reads, each once
  std::uint64_t written = 0;  ///< of its results
  std::uint64_t weights = 0;  ///< of its constants
  std::uint64_t live = 0;     ///< of all values that are alive while it runs, its own included
  std::uint64_t tiled = 0;    ///< the same as the chip stores them, see tiled_bytes()

  /// What must be near the processor when the node is not cut into tiles.
  [[nodiscard]] std::uint64_t working_set() const { return read + written + weights; }
};

/// Bytes of a tensor packed tightly: 4-bit weights take half a byte.
[[nodiscard]] std::uint64_t stored_bytes(const TensorType& type);

/// Bytes of a value as the chip stores it: the last three axes in tiles of 2048 bytes, 8 rows, 8 columns (of 16-bit types
/// 4), 32 channels. Source: the layouts of the vendor's profiles, docs/qnn-findings.md.
[[nodiscard]] std::uint64_t tiled_bytes(const TensorType& type);

/// Inputs of the graph live from the start, outputs to the end, everything else from its node to its last reader.
[[nodiscard]] std::vector<LiveStep> live_sets(const Graph& graph);

}  // namespace htpipe::check
