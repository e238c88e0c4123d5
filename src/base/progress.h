// Progress of long work, on stderr: one redrawn line on a terminal, a line per ten per cent elsewhere (for work of more
// than two seconds).
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

namespace htpipe {

/// How progress is shown; set once by the command line.
enum class ProgressMode { kNone, kText, kJsonLines };
void set_progress_mode(ProgressMode mode);

/// One piece of long work with a known number of steps. Thread-safe; the destructor ends the line.
class Progress {
 public:
  Progress(std::string_view what, std::int64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void step(std::int64_t count = 1);

 private:
  void show(std::int64_t done);
  std::string what_;
  std::int64_t total_;
  std::atomic<std::int64_t> done_{0};
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::int64_t shown_percent_ = -1;
};

}  // namespace htpipe
