// Collects what the vendor's libraries say. Worker process only.
// Invariant: lines known to be harmless never reach a report; every other error and warning line does, up to a limit.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qnn/abi.h"

namespace htpipe::qnn {

/// True for lines that release 2.51 prints with every graph although all calls succeed.
[[nodiscard]] bool is_harmless_log_line(std::string_view line);

/// The process-wide sink of the vendor's log callback (which carries no user pointer). Thread-safe.
namespace vendor_log {

/// To be handed to log_create.
void callback(const char* format, std::uint32_t level, std::uint64_t timestamp, va_list arguments);
/// Forgets the first error line, so that `first_error` speaks of the next call only.
void begin_call();
/// First error line since begin_call, trimmed; empty when there is none.
[[nodiscard]] std::string first_error();
/// All error and warning lines so far, each once, in order of first appearance, at most 200.
[[nodiscard]] std::vector<std::string> lines();

}  // namespace vendor_log
}  // namespace htpipe::qnn
