#include "base/child_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/io.h"

extern char** environ;

namespace htpipe {
namespace {

class SpawnSettings {
 public:
  explicit SpawnSettings(const ChildStart& start) {
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
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  posix_spawn_file_actions_t actions{};
  posix_spawnattr_t attributes{};
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

std::string signal_name(int number) {
  switch (number) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGABRT:
      return "SIGABRT";
    case SIGBUS:
      return "SIGBUS";
    case SIGILL:
      return "SIGILL";
    case SIGFPE:
      return "SIGFPE";
    case SIGKILL:
      return "SIGKILL, often for lack of memory";
    default:
      return fmt::format("signal {}", number);
  }
}

}  // namespace

ChildProcess::ChildProcess(const ChildStart& start, int& error) {
  const SpawnSettings settings(start);
  std::vector<std::string> arguments = {start.program};
  arguments.insert(arguments.end(), start.arguments.begin(), start.arguments.end());
  std::vector<std::string> environment = start.environment;
  error = ::posix_spawnp(&pid_, start.program.c_str(), &settings.actions, &settings.attributes,
                         pointers(arguments).data(), environment.empty() ? environ : pointers(environment).data());
  if (error != 0) return;
  reaped_ = false;
  pidfd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
}

ChildProcess::~ChildProcess() {
  kill();
  if (pidfd_ >= 0) ::close(pidfd_);
}

bool ChildProcess::wait(int ms) {
  if (reaped_) return true;
  if (pidfd_ >= 0) {
    pollfd entry{pidfd_, POLLIN, 0};
    ::poll(&entry, 1, ms);
  } else {
    ::usleep(static_cast<useconds_t>(ms) * 1000);
  }
  siginfo_t ended{};
  // Not reaped yet, so that its number still names its group.
  if (::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == 0) {
    return false;
  }
  kill();
  return true;
}

void ChildProcess::kill() {
  if (reaped_) return;
  ::kill(-pid_, SIGKILL);
  while (::waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
}

bool ChildProcess::succeeded() const { return WIFEXITED(status_) && WEXITSTATUS(status_) == 0; }

std::string ChildProcess::how() const {
  return WIFSIGNALED(status_) ? fmt::format("died by {}", signal_name(WTERMSIG(status_)))
                              : fmt::format("ended with status {}", WEXITSTATUS(status_));
}

std::string end_of_file(const std::filesystem::path& file, std::size_t most) {
  const auto text = read_text(file);
  if (!text) return {};
  std::string tail = text->substr(text->size() > most ? text->size() - most : 0);
  while (!tail.empty() && (tail.back() == '\n' || tail.back() == '\r')) tail.pop_back();
  return tail;
}

}  // namespace htpipe
