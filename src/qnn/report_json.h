// Types, errors and reports as JSON: what worker and parent tell each other.
// Invariant: from_json of to_json gives the same value. The readers throw nlohmann's exceptions; their callers, which
// know the file, turn them into json-shape.
#pragma once

#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "qnn/reports.h"

namespace htpipe::qnn {

[[nodiscard]] Json type_to_json(const TensorType& type);
[[nodiscard]] TensorType type_from_json(const Json& json);

[[nodiscard]] Json error_to_json(const Error& error);
[[nodiscard]] Error error_from_json(const Json& json);

[[nodiscard]] Json to_json_value(const std::vector<StageTime>& stages);
[[nodiscard]] std::vector<StageTime> stages_from_json(const Json& json);

[[nodiscard]] Json to_json_value(const LibraryVersion& version);
[[nodiscard]] LibraryVersion library_from_json(const Json& json);

[[nodiscard]] Json to_json_value(const OpVerdict& verdict);
[[nodiscard]] OpVerdict verdict_from_json(const Json& json);

[[nodiscard]] Json to_json_value(const ContextInfo& info);
[[nodiscard]] ContextInfo context_from_json(const Json& json);

}  // namespace htpipe::qnn
