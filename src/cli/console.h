// How answers and errors reach the user: text or one JSON document on stdout, everything else on stderr.
// Invariant: with --json stdout holds one JSON document, whatever happened.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/answer.h"

namespace htpipe::cli {

/// Sets log level, progress and colours as the flags and the environment (NO_COLOR, FORCE_COLOR) say.
void set_up_console(const GlobalOptions& options);

/// Shows an answer and gives the exit code. A full or closed stdout gives exit code 1.
[[nodiscard]] int show(const Answer& answer, const Arguments& arguments);

/// Shows an error of the command `verb` and gives the exit code. The last line on stderr is
/// "failed: stage S: first cause; next: next step"; S is the last note of the form "stage S", else `verb`.
[[nodiscard]] int show(const Error& error, std::string_view verb, const GlobalOptions& options);

/// The process exit code for an error: that of its code, 130 for an interruption.
[[nodiscard]] int exit_code_of(const Error& error);

}  // namespace htpipe::cli
