// Advice: what would make the model smaller, faster or more accurate on the chip.
// Invariant: every piece of advice comes from a rule with a stable id (docs/rules.md), and says what it would gain.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "check/memory.h"
#include "check/subject.h"

namespace htpipe::check {

enum class Severity : std::uint8_t { kInfo, kWarning, kError };
/// "info", "warning", "error".
[[nodiscard]] std::string_view name_of(Severity severity);

/// Estimated, in a unit: "bytes of DDR traffic", "operators", "multiply-adds".
struct Gain {
  double amount = 0;
  std::string unit;
};

/// Whether the change can be made without changing a value, and was.
enum class Fix : std::uint8_t { kNone, kAvailable, kApplied };
/// "none", "available", "applied".
[[nodiscard]] std::string_view name_of(Fix fix);

/// One row of the table.
struct AdviceRule {
  std::string_view id;
  Severity severity;
  std::string_view found;   ///< what was found
  std::string_view why;     ///< why it matters on the HTP
  std::string_view advice;  ///< what to do
  std::string_view fix;     ///< what --apply does about it; empty = nothing
  std::string_view source;
};
/// The table, sorted by id.
[[nodiscard]] const std::vector<AdviceRule>& advice_rules();

struct Advice {
  std::string rule;  ///< "conv-channels-32"
  Severity severity = Severity::kInfo;
  std::string node;   ///< of the optimised graph; empty = the whole graph
  std::string layer;  ///< module path
  std::string line;   ///< "model.py:42"; empty when unknown
  std::string issue;  ///< what was found
  std::string text;   ///< what to do
  std::optional<Gain> gain;
  Fix fix = Fix::kNone;
  std::string fix_info;  ///< the pass that does it, or what it did
};

/// All advice about a model on a chip: by severity, then by rule, then in the order of the graph.
[[nodiscard]] std::vector<Advice> advise(const Subject& subject, const MemoryReport& memory);
[[nodiscard]] Json to_json(const Advice& advice);

}  // namespace htpipe::check
