// A pass: one rewrite of the graph, in one file, known by a verb.
// Invariant: a pass changes no value that the graph computes by more than float rounding, and neither names nor types
// of the graph's inputs and outputs. A value that stands for a layer keeps its name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace htpipe {

/// What one run of a pass did. No rewrite: the graph is as before.
struct PassReport {
  int rewrites = 0;
  std::vector<std::string> notes;  ///< one sentence per rewrite, with the layers

  void add(std::string note) {
    ++rewrites;
    notes.push_back(std::move(note));
  }
};

struct Pass {
  std::string_view name;  ///< a verb, and the name of its file, e.g. "fold_batchnorm"
  std::string_view doc;   ///< one sentence
  /// Rewrites until it finds nothing more. Errors: those of the operators' rules; they are defects of the pass.
  Result<PassReport> (*run)(Graph& graph);
};

/// Every pass, in the order of pass_list.inc.
[[nodiscard]] const std::vector<const Pass*>& all_passes();
/// nullptr when there is none of that name.
[[nodiscard]] const Pass* find_pass(std::string_view name);

namespace passes {
#define HTPIPE_PASS(name) [[nodiscard]] const Pass& name();
#include "passes/pass_list.inc"
#undef HTPIPE_PASS
}  // namespace passes

}  // namespace htpipe
