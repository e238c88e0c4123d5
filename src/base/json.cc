#include "base/json.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/io.h"

namespace htpipe {

Result<Json> parse_json(std::string_view text) {
  try {
    return Json::parse(text);
  } catch (const Json::exception& error) {
    return fail(Code::kJsonInvalid, error.what());
  }
}

Result<Json> read_json(const std::filesystem::path& path) {
  HTPIPE_TRY(const std::string text, read_text(path));
  auto json = parse_json(text);
  if (!json) return fail(std::move(json.error()).in_file(path.string()));
  return json;
}

std::string to_text(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; }

Status write_json(const std::filesystem::path& path, const Json& json) {
  return write_file_atomic(path, to_text(json));
}

}  // namespace htpipe
