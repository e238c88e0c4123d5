// The sink of the vendor's log lines.
#include "qnn/vendor_log.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <mutex>

namespace htpipe::qnn {
namespace {

constexpr std::size_t kMostLines = 200;

// Printed by release 2.51 on x86 with every graph, or for our way of choosing the chip (the SoC alone).
constexpr std::array<std::string_view, 12> kHarmless = {
    "unexpected GraphHtpSettings option",
    "VTCM_OFFSET",
    "hvx_threads",
    "remote-weight",
    "remote weight",
    "Performance Estimates unsupported",
    "Initializing HtpProvider",
    "set by custom config is different from arch associated with SoC",
    "No op packages found for architecture",
    "no properties registered for",
    "Cost Based unsupported on soc",
    "m_CFBCallbackInfoObj is not initialized",
};

struct Sink {
  std::mutex mutex;
  std::string first_error;
  std::vector<std::string> lines;
};

Sink& sink() {
  static Sink instance;
  return instance;
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kBlank) - begin + 1));
}

/// Some parts of the library put the level before the text, some do not.
std::string_view without_level(std::string_view line) {
  for (const std::string_view level : {"<E> ", "<W> "}) {
    const auto at = line.find(level);
    if (at != std::string_view::npos && at <= 1) return line.substr(at + level.size());
  }
  return line;
}

}  // namespace

bool is_harmless_log_line(std::string_view line) {
  return std::any_of(kHarmless.begin(), kHarmless.end(),
                     [line](std::string_view part) { return line.find(part) != std::string_view::npos; });
}

namespace vendor_log {

void callback(const char* format, std::uint32_t level, std::uint64_t /*timestamp*/, va_list arguments) {
  if (level > abi::kLogWarning || format == nullptr) return;
  std::array<char, 4096> buffer{};
  if (std::vsnprintf(buffer.data(), buffer.size(), format, arguments) < 0) return;
  std::string line = trimmed(without_level(buffer.data()));
  if (line.empty() || is_harmless_log_line(line)) return;
  Sink& target = sink();
  const std::lock_guard lock(target.mutex);
  if (level == abi::kLogError && target.first_error.empty()) target.first_error = line;
  if (target.lines.size() >= kMostLines) return;
  if (std::find(target.lines.begin(), target.lines.end(), line) == target.lines.end()) {
    target.lines.push_back(std::move(line));
  }
}

void begin_call() {
  Sink& target = sink();
  const std::lock_guard lock(target.mutex);
  target.first_error.clear();
}

std::string first_error() {
  Sink& target = sink();
  const std::lock_guard lock(target.mutex);
  return target.first_error;
}

std::vector<std::string> lines() {
  Sink& target = sink();
  const std::lock_guard lock(target.mutex);
  return target.lines;
}

}  // namespace vendor_log
}  // namespace htpipe::qnn
