// The command line: verbs, flags, help. CLI11 is behind it.
// Invariant: reading the command line has no effect but its result.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "cli/answer.h"

namespace htpipe::cli {

/// Help or version text that was asked for instead of a command.
struct HelpText {
  std::string text;
};

/// Reads the command line. Errors: usage, with the nearest verb or flag.
Result<std::variant<Arguments, HelpText>> parse_arguments(int argc, const char* const* argv);

/// The global flags alone, read without judging the rest: how to show an error of the command line itself.
[[nodiscard]] GlobalOptions scan_global_options(int argc, const char* const* argv);

}  // namespace htpipe::cli
