// One file of tests/golden: the passes to run, a graph, and the graph that must come out.
//
//   # run: fold_batchnorm, fuse_activation     steps of PassOptions::order; "default" is default_order()
//   # execute: no (reason)                     only where no engine can run the graph in front of the passes
//   graph @g(...) -> (...) { ... }
//   ----
//   graph @g(...) -> (...) { ... }             or "unchanged", or "error: <code>"
//
// Invariant: only the text behind ---- is ever rewritten by HTPIPE_UPDATE_GOLDEN=1.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "ir/text.h"

namespace htpipe::golden {

struct Case {
  std::filesystem::path path;
  std::vector<std::string> order;
  bool executable = true;
  std::string input;     ///< everything in front of ----
  std::string expected;  ///< trimmed
};

/// All *.htir files below tests/golden, sorted by path.
[[nodiscard]] std::vector<std::filesystem::path> files();
/// Errors: those of reading; data-format when the header or the line ---- is missing.
Result<Case> read(const std::filesystem::path& path);
/// The constants of `graph`, for reading its printed form again.
[[nodiscard]] BlobSource blobs_of(const Graph& graph);

}  // namespace htpipe::golden
