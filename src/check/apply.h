// What `htpipe check --apply` does: changes of the interface that keep every value.
// Invariant: the graph computes the same from the same numbers; only the type or the order of what it is given changes.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace htpipe::check {

/// One change that was made.
struct Applied {
  std::string rule;   ///< of the table of advice
  std::string place;  ///< the input
  std::string text;   ///< "i64[1,7] is i32[1,7] now"
};

/// Whether an input is a channel-first image that the graph transposes first of all: behind the passes.
[[nodiscard]] bool is_channel_first_image(const Value& input);

/// Makes int64 inputs int32, and images that `optimised` (the same graph behind the passes) transposes channel-last,
/// with a Cast or a Transpose behind each that the passes remove. Errors: those of building nodes.
Result<std::vector<Applied>> apply_fixes(Graph& imported, const Graph& optimised);

}  // namespace htpipe::check
