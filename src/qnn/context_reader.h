// Reads the description of a context binary through QnnSystem. Worker process only.
// Invariant: sizes in the description are compared with the structs we know before anything is read from it.
#pragma once

#include <vector>

#include "base/io.h"
#include "base/result.h"
#include "qnn/composer.h"
#include "qnn/loader.h"
#include "qnn/reports.h"

namespace htpipe::qnn {

struct ContextContents {
  ContextInfo info;
  /// Ports of info.graphs, in the same order; `graph` handles are null.
  std::vector<GraphHandle> graphs;
};

/// Errors: context-invalid.
Result<ContextContents> read_context(const System& system, Bytes binary);

}  // namespace htpipe::qnn
