#include "base/progress.h"

#include <fmt/core.h>
#include <unistd.h>

#include <cstdio>

namespace htpipe {
namespace {

/// A log file needs no lines about work that is over at once.
constexpr std::chrono::seconds kQuietTime{2};

std::atomic<ProgressMode> g_mode{ProgressMode::kNone};

bool on_terminal() {
  static const bool terminal = ::isatty(STDERR_FILENO) != 0;
  return terminal;
}

}  // namespace

void set_progress_mode(ProgressMode mode) { g_mode = mode; }

Progress::Progress(std::string_view what, std::int64_t total) : what_(what), total_(total > 0 ? total : 1) {}

Progress::~Progress() {
  if (g_mode == ProgressMode::kText && on_terminal() && shown_percent_ >= 0) fmt::print(stderr, "\r\033[K");
}

void Progress::step(std::int64_t count) {
  const std::int64_t done = done_.fetch_add(count) + count;
  if (g_mode != ProgressMode::kNone) show(done);
}

void Progress::show(std::int64_t done) {
  const std::lock_guard lock(mutex_);
  const ProgressMode mode = g_mode;
  const bool redraw = mode == ProgressMode::kText && on_terminal();
  const bool line_per_step = mode == ProgressMode::kText && !redraw;
  if (line_per_step && std::chrono::steady_clock::now() - begin_ < kQuietTime) return;
  const std::int64_t grain = redraw ? 1 : 10;
  const std::int64_t percent = done * 100 / total_ / grain * grain;
  if (percent <= shown_percent_) return;
  shown_percent_ = percent;
  if (mode == ProgressMode::kJsonLines) {
    fmt::print(stderr, "{{\"event\":\"progress\",\"what\":\"{}\",\"done\":{},\"total\":{}}}\n", what_, done, total_);
  } else if (redraw) {
    fmt::print(stderr, "\r\033[K{} {}% ({}/{})", what_, percent, done, total_);
    std::fflush(stderr);
  } else {
    fmt::print(stderr, "{} {}%\n", what_, percent);
  }
}

}  // namespace htpipe
