#include "pipeline/python_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/io.h"

extern char** environ;

namespace htpipe {
namespace {

constexpr int kPollMs = 50;
constexpr std::size_t kMostOutput = 2000;

/// Our own environment with another PYTHONPATH. Unbuffered output, so that a killed process leaves its last words.
std::vector<std::string> environment(const std::filesystem::path& python_path) {
  std::vector<std::string> entries;
  std::string old_path;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.rfind("PYTHONPATH=", 0) == 0) {
      old_path = text.substr(std::strlen("PYTHONPATH="));
    } else if (text.rfind("PYTHONUNBUFFERED=", 0) != 0) {
      entries.emplace_back(text);
    }
  }
  std::string path = python_path.empty() ? std::string() : std::filesystem::absolute(python_path).string();
  if (!old_path.empty()) path += (path.empty() ? "" : ":") + old_path;
  if (!path.empty()) entries.push_back("PYTHONPATH=" + path);
  entries.emplace_back("PYTHONUNBUFFERED=1");
  return entries;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

class SpawnSettings {
 public:
  explicit SpawnSettings(const PythonStart& start) {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, start.input.c_str(), O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, start.output.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                       0600);
    ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

/// A process that is killed with its group when it is dropped.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid), pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    finish();
    if (pidfd_ >= 0) ::close(pidfd_);
  }

  /// Waits up to kPollMs; true when the process has ended.
  bool wait() {
    if (pidfd_ >= 0) {
      pollfd entry{pidfd_, POLLIN, 0};
      ::poll(&entry, 1, kPollMs);
    } else {
      ::usleep(kPollMs * 1000);
    }
    siginfo_t ended{};
    // Not reaped yet, so that its number still names its group.
    if (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0) {
      return false;
    }
    finish();
    return true;
  }
  [[nodiscard]] std::string how() const {
    return WIFSIGNALED(status_) ? fmt::format("died by signal {}{}", WTERMSIG(status_),
                                              WTERMSIG(status_) == SIGKILL ? ", often for lack of memory" : "")
                                : fmt::format("ended with status {}", WEXITSTATUS(status_));
  }

 private:
  /// Ends the process and those that it started.
  void finish() {
    if (reaped_) return;
    ::kill(-pid_, SIGKILL);
    while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
    }
    reaped_ = true;
  }
  pid_t pid_;
  int pidfd_;
  bool reaped_ = false;
  int status_ = 0;
};

std::string end_of(const std::filesystem::path& file) {
  const auto text = read_text(file);
  if (!text) return {};
  std::string tail = text->substr(text->size() > kMostOutput ? text->size() - kMostOutput : 0);
  while (!tail.empty() && (tail.back() == '\n' || tail.back() == '\r')) tail.pop_back();
  return tail;
}

}  // namespace

Result<PythonEnd> run_process(const PythonStart& start, int timeout_s, const std::function<bool()>& cancelled) {
  if (cancelled && cancelled()) return fail(Code::kInterrupted, "before Python was started");
  const SpawnSettings settings(start);
  std::vector<std::string> arguments = {start.interpreter.string()};
  arguments.insert(arguments.end(), start.arguments.begin(), start.arguments.end());
  std::vector<std::string> variables = environment(start.python_path);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, start.interpreter.c_str(), &settings.actions, &settings.attributes,
                                    pointers(arguments).data(), pointers(variables).data());
  if (failed != 0) {
    return fail(Error(Code::kPythonMissing, fmt::format("cannot start it: {}", std::strerror(failed)))
                    .in_file(start.interpreter.string()));
  }
  const auto begin = std::chrono::steady_clock::now();
  Child child(pid);
  while (!child.wait()) {
    if (cancelled && cancelled()) return fail(Code::kInterrupted, "the Python process was stopped");
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (time.count() <= timeout_s) continue;
    Error error(Code::kPythonTimeout, fmt::format("the Python process took longer than {} s", timeout_s));
    const std::string output = end_of(start.output);
    if (!output.empty()) error.notes.push_back("it printed: " + output);
    return fail(std::move(error));
  }
  return PythonEnd{child.how(), end_of(start.output)};
}

}  // namespace htpipe
