// What `htpipe check` says about a model on one chip: plain data, and its views as JSON, CSV and HTML.
// Invariant: every node of the imported graph has exactly one verdict.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "check/advice.h"
#include "check/memory.h"
#include "target/rules.h"

namespace htpipe::check {

/// What becomes of a node.
enum class Fate : std::uint8_t {
  kNative,      ///< the chip executes it as it stands
  kRewritten,   ///< the chip executes what htpipe makes of it
  kFallback,    ///< the chip cannot; another engine can
  kImpossible,  ///< no engine can: it cannot even be imported
};
/// "native", "rewritten", "fallback", "impossible".
[[nodiscard]] std::string_view name_of(Fate fate);

/// A tensor at a node, as the views show it.
struct Operand {
  std::string name;
  std::string type;  ///< "f32[1,3,224,224]"
  Shape shape;
};

struct NodeReport {
  std::string node;
  std::string op;
  std::string layer;
  std::string line;  ///< "model.py:42"; empty when unknown
  Fate fate = Fate::kNative;
  std::string reason;         ///< why it is not native; empty for kNative
  std::string rule_reason;    ///< what our table refuses it for; empty = it does not
  std::string vendor_reason;  ///< what the vendor's validator refuses it for, or its crash; empty = it does not
  int part = -1;              ///< index in CheckReport::parts of what it became; -1 = nothing is left of it
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  std::string parameters;         ///< attributes that differ from their defaults
  std::string previous;           ///< the node that makes its first operand; empty = an input
  std::vector<std::string> next;  ///< nodes that take its results
};

/// A tensor that leaves one part for others.
struct Cut {
  std::string value;
  std::string type;  ///< where it is on the chip: "u8<scale 0.02, zero 128>[1,56,56,24]"
  Shape shape;
  int from = -1;  ///< part that makes it
  std::vector<int> to;
  std::uint64_t chip_bytes = 0;   ///< stored as on the chip
  std::uint64_t other_bytes = 0;  ///< stored as the other engine takes it (float32 for real numbers)
  /// Bytes written and read by the crossing: the stored tensor leaves the chip's memory and enters the other's (or the
  /// other way round), once for each part that takes it.
  std::uint64_t moved_bytes = 0;
  std::uint64_t converted_elements = 0;  ///< elements quantised or dequantised at the boundary
};

/// Nodes that one engine executes in one go.
struct Part {
  bool on_chip = true;
  std::vector<std::string> nodes;    ///< of the optimised graph, in order
  std::vector<std::string> inputs;   ///< values it takes from other parts or from outside
  std::vector<std::string> outputs;  ///< values that others take from it
};

struct CheckReport {
  std::string model;
  std::string target;
  Precision precision = Precision::kInt8;
  bool feasible = false;  ///< every node runs on the chip
  std::string vendor;     ///< version of the validator that was asked; empty = it was not asked
  std::vector<NodeReport> nodes;
  std::vector<Part> parts;  ///< in order of execution; one part on the chip when feasible
  std::vector<Cut> cuts;
  std::optional<MemoryReport> memory;
  std::vector<Advice> advice;
  std::vector<std::string> warnings;

  [[nodiscard]] std::int64_t count(Fate fate) const;
};

[[nodiscard]] Json to_json(const CheckReport& report);

}  // namespace htpipe::check
