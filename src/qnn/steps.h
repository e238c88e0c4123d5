// The worker's diary: what it is about to do, so that its parent can name the step when the worker dies.
// Invariant: a line is in the file before the step begins.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "qnn/reports.h"

namespace htpipe::qnn {

/// One line per step: "verb" or "verb subject", for instance "validate conv1", "finalize", "execute 12".
class Steps {
 public:
  explicit Steps(const std::filesystem::path& file);
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;
  ~Steps();

  void begin(std::string_view verb, std::string_view subject = {});
  /// The subject of the last step, for errors.
  [[nodiscard]] const std::string& subject() const { return subject_; }

 private:
  int file_;
  std::string subject_;
};

/// Measures one stage and adds it to `stages` when it ends.
class StageClock {
 public:
  StageClock(std::vector<StageTime>& stages, std::string_view stage);
  StageClock(const StageClock&) = delete;
  StageClock& operator=(const StageClock&) = delete;
  ~StageClock();

 private:
  std::vector<StageTime>& stages_;
  std::string stage_;
  std::int64_t start_ns_;
};

}  // namespace htpipe::qnn
