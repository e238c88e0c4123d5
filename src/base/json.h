// JSON for files and reports that people may read: keys keep their order, numbers are shortest round-trip.
// Include <nlohmann/json.hpp> only in .cc files (it costs 4 s a translation unit).
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"

namespace htpipe {

using Json = nlohmann::ordered_json;

/// Parses a JSON text. Errors: json-invalid with the byte offset.
Result<Json> parse_json(std::string_view text);
/// Reads and parses a file. Errors: as read_text and parse_json, with the file as place.
Result<Json> read_json(const std::filesystem::path& path);
/// Two-space indented, with a final line feed; NaN and infinities are written as null.
std::string to_text(const Json& json);
/// Writes `to_text(json)` atomically.
Status write_json(const std::filesystem::path& path, const Json& json);

}  // namespace htpipe
