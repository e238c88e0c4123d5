#include "base/json.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "base/io.h"

namespace htpipe {
namespace {

/// Deeper documents are none of ours, and writing or freeing them takes stack for every level.
constexpr int kDeepestNesting = 256;

/// Largest number of open brackets and braces outside strings.
int nesting_of(std::string_view text) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

Result<Json> parse_json(std::string_view text) {
  if (nesting_of(text) > kDeepestNesting) {
    return fail(Code::kJsonInvalid, fmt::format("nested more than {} levels deep", kDeepestNesting));
  }
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
