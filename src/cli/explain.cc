// htpipe explain: what a code of ours, of QNN or of Genie means, its likely cause and the next step.
#include <fmt/core.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "cli/answer.h"
#include "qnn/vendor_codes.h"
#include "target/spelling.h"

namespace htpipe::cli {
namespace {

struct Meaning {
  std::string code;
  std::string from;
  std::string sentence;
  std::string cause;
  std::string next;
};

/// Sentences and hints end in a full stop, whatever the table's row does.
std::string sentence(std::string_view text) {
  std::string result(text);
  if (!result.empty() && result.back() != '.' && result.back() != '?') result += '.';
  return result;
}

Meaning meaning_of(const CodeInfo& row) {
  return {
      std::string(row.word),
      fmt::format("htpipe, exit code {}", row.exit_code == 1 && row.code == Code::kInterrupted ? 130 : row.exit_code),
      sentence(row.sentence), sentence(row.cause), sentence(row.next)};
}

Meaning meaning_of(const qnn::VendorCode& row) {
  return {fmt::format("{} {}", row.code, row.name), std::string(row.library), sentence(row.sentence),
          sentence(row.cause), sentence(row.next)};
}

std::optional<std::int64_t> as_number(std::string_view text) {
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  const bool hex = text.size() > 2 && text.substr(0, 2) == "0x";
  if (hex) text.remove_prefix(2);
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value, hex ? 16 : 10);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

Answer to_answer(const Meaning& meaning) {
  Answer answer;
  *answer.json = {{"code", meaning.code},
                  {"from", meaning.from},
                  {"sentence", meaning.sentence},
                  {"cause", meaning.cause},
                  {"next", meaning.next}};
  answer.text = fmt::format("{} ({})\n  {}\n  Likely cause: {}\n  Next step: {}\n", meaning.code, meaning.from,
                            meaning.sentence, meaning.cause, meaning.next);
  answer.brief = meaning.sentence + "\n";
  return answer;
}

Error unknown_number(std::int64_t number) {
  const std::string_view component = qnn::vendor_component(number);
  std::string nearby;
  std::int64_t best = 0;
  for (const qnn::VendorCode& row : qnn::all_vendor_codes()) {
    const std::int64_t distance = row.code > number ? row.code - number : number - row.code;
    if (nearby.empty() || distance < best) {
      nearby = fmt::format("{} {}", row.code, row.name);
      best = distance;
    }
  }
  const std::string owner = component.empty() ? "no component of QNN or Genie has it"
                                              : fmt::format("it is in the range of QNN's component {}", component);
  return Error(Code::kUnknownCode, fmt::format("{} is not listed; {}", number, owner))
      .with_hint(fmt::format("The nearest listed code is {}.", nearby));
}

Error unknown_word(const std::string& text) {
  std::vector<std::string> known;
  for (const CodeInfo& row : all_codes()) known.emplace_back(row.word);
  for (const qnn::VendorCode& row : qnn::all_vendor_codes()) known.emplace_back(row.name);
  const std::string hint = did_you_mean(text, known);
  return Error(Code::kUnknownCode, fmt::format("no code \"{}\"", text.substr(0, 80))).with_hint(hint);
}

}  // namespace

Result<Answer> explain(const Arguments& arguments) {
  const std::string& text = arguments.subject;
  if (const CodeInfo* row = find_code(text)) return to_answer(meaning_of(*row));
  if (const auto number = as_number(text)) {
    if (const qnn::VendorCode* row = qnn::find_vendor_code(*number)) return to_answer(meaning_of(*row));
    return fail(unknown_number(*number));
  }
  if (const qnn::VendorCode* row = qnn::find_vendor_code(std::string_view(text))) return to_answer(meaning_of(*row));
  return fail(unknown_word(text));
}

}  // namespace htpipe::cli
