// What speaks against each node of the optimised graph on a chip: our table, the quantiser, the vendor's validator.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "qnn/vendor.h"
#include "target/coverage.h"
#include "target/rules.h"
#include "target/target.h"

namespace htpipe::check {

struct Finding {
  std::string rule;    ///< why our table, the quantiser or the lowering refuses it; empty = they do not
  std::string vendor;  ///< what the vendor's validator refuses it for, or its crash; empty = it does not
  [[nodiscard]] bool refused() const { return !rule.empty() || !vendor.empty(); }
  [[nodiscard]] std::string reason() const;
};

struct Findings {
  Graph assumed;                                        ///< see Subject::assumed
  std::map<std::string, Finding, std::less<>> refused;  ///< by node of the optimised graph
  std::string note;  ///< what stands against the graph as a whole; the validator was not asked then
  [[nodiscard]] bool feasible() const { return refused.empty() && note.empty(); }
};

/// Judges every node of a channel-last graph. `vendor` may be null. Errors: those of the vendor but a crash of its
/// validator.
Result<Findings> find_obstacles(const Graph& optimised, const Target& target, Precision precision,
                                const qnn::Vendor* vendor);

/// A judge for cover(): by what was found.
[[nodiscard]] Judge judge_by(const Findings& findings);

/// What becomes of each imported node by our table, with the types that the chip would get. Errors: those of assume.
Result<Coverage> coverage_of(const Graph& imported, const Graph& optimised, const Target& target, Precision precision);

}  // namespace htpipe::check
