#include "passes/order.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "target/spelling.h"

namespace htpipe {
namespace {

constexpr std::string_view kDefaultOrder =
#include "passes/default_order.inc"
    ;
constexpr std::string_view kOnnxOrder =
#include "passes/onnx_order.inc"
    ;

constexpr std::string_view kBlanks = " \t\r,";

std::vector<std::string_view> words_of(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kBlanks, end);
  }
  return words;
}

/// An order that stands in the program: a wrong name in it is a defect.
PassOrder own_order(std::string_view text) {
  auto order = parse_order(text, "");
  HTPIPE_CHECK(order.has_value(), order ? "" : order.error().summary());
  return std::move(*order);
}

}  // namespace

Result<const Pass*> known_pass(std::string_view name) {
  if (const Pass* pass = find_pass(name); pass != nullptr) return pass;
  std::vector<std::string> known;
  for (const Pass* pass : all_passes()) known.emplace_back(pass->name);
  Error error(Code::kUsage, fmt::format("no pass \"{}\"; there are {}", name.substr(0, 80), fmt::join(known, ", ")));
  error.hint = did_you_mean(name, known);
  return fail(std::move(error));
}

Result<std::vector<const Pass*>> passes_of(std::string_view step) {
  std::vector<const Pass*> passes;
  for (const std::string_view word : words_of(step)) {
    HTPIPE_TRY(const Pass* pass, known_pass(word));
    passes.push_back(pass);
  }
  if (passes.empty()) return fail(known_pass(step).error());
  return passes;
}

Result<PassOrder> parse_order(std::string_view text, const std::string& file) {
  PassOrder order;
  int line = 0;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::vector<std::string_view> words = words_of(text.substr(at, end - at));
    for (const std::string_view word : words) {
      if (auto pass = known_pass(word); !pass) return fail(std::move(pass.error()).in_file(file, line + 1));
    }
    if (!words.empty()) order.push_back(fmt::format("{}", fmt::join(words, " ")));
    at = end + 1;
  }
  if (order.empty()) return fail(Error(Code::kUsage, "the order names no pass").in_file(file));
  return order;
}

const PassOrder& default_order() {
  static const PassOrder order = own_order(kDefaultOrder);
  return order;
}

std::string_view default_order_text() { return kDefaultOrder; }

const PassOrder& onnx_order() {
  static const PassOrder order = own_order(kOnnxOrder);
  return order;
}

std::string_view onnx_order_text() { return kOnnxOrder; }

}  // namespace htpipe
