// A child process with its own group: started, waited for, ended.
// Invariant: a ChildProcess that is dropped is dead and reaped, and so are the processes that it started.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

namespace htpipe {

struct ChildStart {
  std::string program;  ///< without '/' it is looked for in $PATH
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  ///< "NAME=value"; empty = our own
  std::filesystem::path input;           ///< the file that is its stdin
  std::filesystem::path output;          ///< takes its stdout and stderr behind what it holds already
};

class ChildProcess {
 public:
  /// Starts it with no signal blocked or ignored. `error` is 0, or the errno of the failure.
  ChildProcess(const ChildStart& start, int& error);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  /// Waits up to `ms`; true when the process has ended.
  bool wait(int ms);
  /// Ends the process and its group.
  void kill();
  /// After it ended: whether its exit status is 0.
  [[nodiscard]] bool succeeded() const;
  /// After it ended: "ended with status 1", "died by SIGSEGV".
  [[nodiscard]] std::string how() const;

 private:
  pid_t pid_ = 0;
  int pidfd_ = -1;
  bool reaped_ = true;
  int status_ = 0;
};

/// The last `most` bytes of a file without the line feeds behind them; empty when it cannot be read.
[[nodiscard]] std::string end_of_file(const std::filesystem::path& file, std::size_t most);

}  // namespace htpipe
