// Memory that a model needs on a chip, estimated without compiling it.
// Invariant: every number is in bytes of the types that the chip would get (Subject::assumed). How far the estimates of
// the spill and of the context are from what the compiler makes stands in docs/feasibility.md (bench/spill_truth.py).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "check/live_sets.h"
#include "check/subject.h"
#include "check/tiling.h"

namespace htpipe::check {

/// A node of the optimised graph, as reports name it.
struct Place {
  std::string node;
  std::string layer;
  std::string line;
};

/// A node whose operands, results and weights together exceed the chip's VTCM: it is computed in tiles, and what it
/// reads and writes crosses to DDR.
struct Pressure {
  Place place;
  std::uint64_t read = 0;
  std::uint64_t written = 0;
  std::uint64_t weights = 0;
  double share = 0;  ///< of the VTCM
  Tiling tiling = Tiling::kWhole;
  std::uint64_t least = 0;  ///< bytes of the smallest piece that it can be computed in
};

/// A node behind which much more is alive, or much larger numbers are, than in front of it.
struct Growth {
  Place place;
  std::string what;  ///< "size", "live set" (against its median) or "range"
  double factor = 0;
  std::uint64_t written = 0;  ///< bytes of its results, or that are alive
};

/// One context of a model that does not fit into one.
struct Piece {
  Place first;
  Place last;
  std::uint64_t context_bytes = 0;
  std::vector<std::string> cut;  ///< values that the next pieces take, by name
  std::uint64_t cut_bytes = 0;
};

struct MemoryReport {
  std::uint64_t weight_bytes = 0;                        ///< of all constants
  std::map<std::string, std::uint64_t> weight_bytes_of;  ///< by stored type: "u8", "i32", "i8 of 4 bits"
  std::uint64_t context_bytes = 0;                       ///< estimated size of the context binary
  std::uint64_t peak_activation_bytes = 0;               ///< largest sum of values that are alive at once
  Place peak;                                            ///< where that is
  std::uint64_t vtcm_bytes = 0;                          ///< of the chip
  std::uint64_t spill_bytes = 0;                         ///< estimated size of the buffer in DDR for activations
  std::vector<Pressure> pressure;                        ///< largest share first
  std::vector<Growth> growth;                            ///< largest factor first
  std::vector<Piece> pieces;                             ///< a proposal; empty when one context is enough
};

/// The largest context that the 32-bit addresses of the chip's processor reach.
inline constexpr std::uint64_t kLargestContext = 2147483648;

/// Largest magnitude that an encoding per tensor reaches; nullopt without one.
[[nodiscard]] std::optional<double> reach_of(const TensorType& type);

[[nodiscard]] MemoryReport estimate_memory(const Subject& subject, std::uint64_t largest_context = kLargestContext);
[[nodiscard]] Json to_json(const MemoryReport& memory);

}  // namespace htpipe::check
