// Errors as values. Everything a user, a file, a device or a vendor library can cause travels as a
// Result<T>; only bugs of our own throw (see check.h).
// Invariant: every Error carries a code of the one table in error_codes.inc.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

namespace htpipe {

/// Stable error codes. The words (`word(code)`) are what users see, grep for and pass to `htpipe explain`.
enum class Code {
#define HTPIPE_ERROR(name, text, exit, sentence, cause, next) name,
#include "base/error_codes.inc"
#undef HTPIPE_ERROR
};

/// One row of the error table.
struct CodeInfo {
  Code code;
  std::string_view word;      ///< stable spelling, e.g. "file-truncated"
  int exit_code;              ///< process exit code when this error ends a command
  std::string_view sentence;  ///< what it means
  std::string_view cause;     ///< the likely cause
  std::string_view next;      ///< the next step
};

/// All rows in table order.
[[nodiscard]] const std::vector<CodeInfo>& all_codes();
[[nodiscard]] const CodeInfo& info(Code code);
[[nodiscard]] std::string_view word(Code code);
/// Looks a code up by its word; nullptr when there is none.
[[nodiscard]] const CodeInfo* find_code(std::string_view word);

/// Where an error happened. Empty fields are unknown.
struct Place {
  std::string file;
  int line = 0;  ///< 1-based, 0 = unknown
  std::string node;
  std::string pass;
  std::string target;
};

/// A failure with a stable code, the place and a hint. `notes` are added on the way up, innermost first.
struct Error {
  Code code;
  std::string message;
  Place place;
  std::vector<std::string> notes;
  std::string hint;  ///< the next step; when empty the table's `next` is shown

  Error(Code error_code, std::string text) : code(error_code), message(std::move(text)) {}

  Error&& in_file(std::string path, int line = 0) &&;
  Error&& at_node(std::string node) &&;
  Error&& in_pass(std::string pass) &&;
  Error&& for_target(std::string target) &&;
  Error&& with_hint(std::string text) &&;
  Error&& with_note(std::string text) &&;

  /// "file-truncated: m.pt2: ... (node x) ..." in one line, without the hint.
  [[nodiscard]] std::string summary() const;
  /// The hint, or the table's next step.
  [[nodiscard]] std::string next_step() const;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = tl::expected<void, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }
[[nodiscard]] inline tl::unexpected<Error> fail(Code code, std::string message) {
  return tl::unexpected<Error>(Error(code, std::move(message)));
}

}  // namespace htpipe

#define HTPIPE_CONCAT_INNER(a, b) a##b
#define HTPIPE_CONCAT(a, b) HTPIPE_CONCAT_INNER(a, b)

/// HTPIPE_TRY(auto x, expression): returns the error of `expression`, or binds its value.
#define HTPIPE_TRY(declaration, expression) HTPIPE_TRY_IMPL(HTPIPE_CONCAT(result_, __LINE__), declaration, expression)
#define HTPIPE_TRY_IMPL(name, declaration, expression)                          \
  auto name = (expression);                                                     \
  if (!name) return ::tl::unexpected<::htpipe::Error>(std::move(name).error()); \
  declaration = std::move(name).value()

/// HTPIPE_CHECK_OK(expression): returns the error of a Status expression.
#define HTPIPE_CHECK_OK(expression)                                                                \
  if (auto HTPIPE_CONCAT(status_, __LINE__) = (expression); !HTPIPE_CONCAT(status_, __LINE__)) {   \
    return ::tl::unexpected<::htpipe::Error>(std::move(HTPIPE_CONCAT(status_, __LINE__)).error()); \
  }                                                                                                \
  static_assert(true)
