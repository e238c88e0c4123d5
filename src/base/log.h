// Log lines for people, on stderr. Library code never prints otherwise.
#pragma once

#include <fmt/core.h>

#include <string>
#include <string_view>

namespace htpipe::log {

enum class Level { kTrace, kDebug, kInfo, kWarn, kError, kOff };

/// Sets the threshold; default kWarn. Honours NO_COLOR.
void set_level(Level level);
[[nodiscard]] bool enabled(Level level);
void write(Level level, std::string_view room, std::string_view message);

template <typename... Args>
void debug(std::string_view room, fmt::format_string<Args...> text, Args&&... args) {
  if (enabled(Level::kDebug)) write(Level::kDebug, room, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void info(std::string_view room, fmt::format_string<Args...> text, Args&&... args) {
  if (enabled(Level::kInfo)) write(Level::kInfo, room, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(std::string_view room, fmt::format_string<Args...> text, Args&&... args) {
  if (enabled(Level::kWarn)) write(Level::kWarn, room, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace htpipe::log
