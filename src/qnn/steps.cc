// Writes the diary without buffering: a crash must not lose the last line.
#include "qnn/steps.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

namespace htpipe::qnn {
namespace {

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Steps::Steps(const std::filesystem::path& file)
    : file_(::open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) {}

Steps::~Steps() {
  if (file_ >= 0) ::close(file_);
}

void Steps::begin(std::string_view verb, std::string_view subject) {
  subject_ = subject;
  std::string line(verb);
  if (!subject.empty()) line.append(" ").append(subject);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += '\n';
  // A lost line only makes a later error less precise.
  if (file_ >= 0 && ::write(file_, line.data(), line.size()) < 0) return;
}

StageClock::StageClock(std::vector<StageTime>& stages, std::string_view stage)
    : stages_(stages), stage_(stage), start_ns_(now_ns()) {}

StageClock::~StageClock() { stages_.push_back({stage_, static_cast<double>(now_ns() - start_ns_) / 1e6}); }

}  // namespace htpipe::qnn
