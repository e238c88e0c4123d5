#include "base/result.h"

#include <fmt/core.h>

#include "base/check.h"

namespace htpipe {

const std::vector<CodeInfo>& all_codes() {
  static const std::vector<CodeInfo> table = {
#define HTPIPE_ERROR(name, text, exit, sentence, cause, next) CodeInfo{Code::name, text, exit, sentence, cause, next},
#include "base/error_codes.inc"
#undef HTPIPE_ERROR
  };
  return table;
}

const CodeInfo& info(Code code) { return all_codes().at(static_cast<std::size_t>(code)); }

std::string_view word(Code code) { return info(code).word; }

const CodeInfo* find_code(std::string_view text) {
  for (const CodeInfo& row : all_codes()) {
    if (row.word == text) return &row;
  }
  return nullptr;
}

Error&& Error::in_file(std::string path, int line) && {
  place.file = std::move(path);
  place.line = line;
  return std::move(*this);
}
Error&& Error::at_node(std::string node) && {
  place.node = std::move(node);
  return std::move(*this);
}
Error&& Error::in_pass(std::string pass) && {
  place.pass = std::move(pass);
  return std::move(*this);
}
Error&& Error::for_target(std::string target) && {
  place.target = std::move(target);
  return std::move(*this);
}
Error&& Error::with_hint(std::string text) && {
  hint = std::move(text);
  return std::move(*this);
}
Error&& Error::with_note(std::string text) && {
  notes.push_back(std::move(text));
  return std::move(*this);
}

std::string Error::summary() const {
  std::string text = fmt::format("{}: ", word(code));
  if (!place.file.empty()) {
    text += place.line > 0 ? fmt::format("{}:{}: ", place.file, place.line) : fmt::format("{}: ", place.file);
  }
  text += message;
  std::string where;
  const auto add = [&where](std::string_view label, const std::string& value) {
    if (value.empty()) return;
    if (!where.empty()) where += ", ";
    where += fmt::format("{} {}", label, value);
  };
  add("node", place.node);
  add("pass", place.pass);
  add("target", place.target);
  if (!where.empty()) text += fmt::format(" ({})", where);
  for (const std::string& note : notes) text += fmt::format("; {}", note);
  return text;
}

std::string Error::next_step() const { return hint.empty() ? std::string(info(code).next) : hint; }

void throw_bug(const char* file, int line, const char* condition, const std::string& message) {
  throw BugError(fmt::format("{}:{}: check failed: {}: {}", file, line, condition, message));
}

}  // namespace htpipe
