// What an artifact says of its own making.
#pragma once

#include "base/json.h"
#include "pipeline/session.h"
#include "target/target.h"

namespace htpipe {

/// Digests of inputs and options and versions of every tool: what reproducing an artifact needs. No times, no paths.
[[nodiscard]] Json provenance_json(const Session& session, const Target& target);

}  // namespace htpipe
