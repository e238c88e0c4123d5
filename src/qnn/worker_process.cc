// posix_spawn, the diary, the time limit and the post-mortem.
#include "qnn/worker_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "qnn/report_json.h"
#include "qnn/worker_jobs.h"

extern char** environ;

namespace htpipe::qnn {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kPollMs = 20;
constexpr std::size_t kMostOutput = 600;

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

/// Steps of the diary, read as they come.
class Diary {
 public:
  explicit Diary(fs::path path) : path_(std::move(path)) {}

  using OnStep = std::function<void(const std::string& verb, const std::string& subject)>;

  /// True when there was a new line. Calls `on_step` for every one.
  bool read(const OnStep& on_step) {
    std::ifstream file(path_, std::ios::binary);
    if (!file || !file.seekg(static_cast<std::streamoff>(offset_))) return false;
    std::string line;
    bool news = false;
    while (std::getline(file, line) && !file.eof()) {
      offset_ += line.size() + 1;
      const auto space = line.find(' ');
      verb_ = line.substr(0, space);
      subject_ = space == std::string::npos ? std::string() : line.substr(space + 1);
      news = true;
      on_step(verb_, subject_);
    }
    return news;
  }
  [[nodiscard]] std::string step() const { return subject_.empty() ? verb_ : verb_ + " " + subject_; }
  /// The node or tensor of the last step; empty when the step is not about one.
  [[nodiscard]] std::string node() const {
    static constexpr std::array<const char*, 3> kNodeVerbs = {"validate", "add", "tensor"};
    const bool about_node = std::find(kNodeVerbs.begin(), kNodeVerbs.end(), verb_) != kNodeVerbs.end();
    return about_node ? subject_ : std::string();
  }

 private:
  fs::path path_;
  std::size_t offset_ = 0;
  std::string verb_ = "start";
  std::string subject_;
};

/// A child process that is killed with its group when it is dropped.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid), pidfd_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))) {}
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    kill();
    if (pidfd_ >= 0) ::close(pidfd_);
  }

  /// Waits up to `ms`; true when the child has ended.
  bool wait(int ms) {
    if (reaped_) return true;
    if (pidfd_ >= 0) {
      pollfd entry{pidfd_, POLLIN, 0};
      ::poll(&entry, 1, ms);
    } else {
      ::usleep(static_cast<useconds_t>(ms) * 1000);
    }
    return reap(WNOHANG);
  }
  void kill() {
    if (reaped_) return;
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    reap(0);
  }
  [[nodiscard]] int status() const { return status_; }

 private:
  bool reap(int flags) {
    pid_t got = 0;
    do {
      got = ::waitpid(pid_, &status_, flags);
    } while (got < 0 && errno == EINTR);
    reaped_ = got != 0;
    return reaped_;
  }
  pid_t pid_;
  int pidfd_;
  bool reaped_ = false;
  int status_ = 0;
};

class SpawnSettings {
 public:
  explicit SpawnSettings(const fs::path& output) {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
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

Result<pid_t> spawn(const fs::path& worker, const fs::path& job_folder) {
  const SpawnSettings settings(job_folder / kOutputFile);
  std::string program = worker.string();
  std::string folder = job_folder.string();
  std::array<char*, 3> arguments = {program.data(), folder.data(), nullptr};
  pid_t pid = 0;
  const int failed =
      ::posix_spawn(&pid, program.c_str(), &settings.actions, &settings.attributes, arguments.data(), environ);
  if (failed != 0) return fail(Error(Code::kFileMissing, std::strerror(failed)).in_file(program));
  return pid;
}

/// The end of what the worker printed, for a post-mortem.
std::string last_output(const fs::path& job_folder) {
  auto text = read_text(job_folder / kOutputFile);
  if (!text || text->empty()) return {};
  const std::size_t from = text->size() > kMostOutput ? text->size() - kMostOutput : 0;
  std::string tail = text->substr(from);
  while (!tail.empty() && (tail.back() == '\n' || tail.back() == '\r')) tail.pop_back();
  std::replace(tail.begin(), tail.end(), '\n', ' ');
  return tail;
}

tl::unexpected<Error> post_mortem(int status, const Diary& diary, const fs::path& job_folder) {
  const std::string how = WIFSIGNALED(status) ? fmt::format("died by {}", signal_name(WTERMSIG(status)))
                                              : fmt::format("ended with status {}", WEXITSTATUS(status));
  Error error(Code::kVendorCrash, fmt::format("the vendor worker {} during step '{}'", how, diary.step()));
  const std::string output = last_output(job_folder);
  if (!output.empty()) error.notes.push_back("it printed: " + output);
  return fail(std::move(error).at_node(diary.node()));
}

Result<Json> response_in(const fs::path& job_folder) {
  HTPIPE_TRY(Json response, read_json(job_folder / kResponseFile));
  try {
    if (!response.at("ok").get<bool>()) return fail(error_from_json(response.at("error")));
    return response;
  } catch (const Json::exception& error) {
    return fail(Error(Code::kJsonShape, error.what()).in_file((job_folder / kResponseFile).string()));
  }
}

/// A worker at work.
struct Running {
  Running(pid_t pid, const fs::path& folder) : child(pid), diary(folder / kProgressFile), job_folder(folder) {}
  Child child;
  Diary diary;
  fs::path job_folder;
  Clock::time_point last_news = Clock::now();
  std::optional<Json> response;
};

Result<std::unique_ptr<Running>> start(const fs::path& worker, const WorkerJob& job) {
  Json request = job.request;
  request["parent_pid"] = ::getpid();
  HTPIPE_CHECK_OK(write_json(job.folder / kRequestFile, request));
  for (const char* name : {kResponseFile, kProgressFile}) {
    std::error_code ignored;
    fs::remove(job.folder / name, ignored);
  }
  HTPIPE_TRY(const pid_t pid, spawn(worker, job.folder));
  return std::make_unique<Running>(pid, job.folder);
}

/// Looks after one worker for up to `wait_ms`; fills its response when it is done.
Status attend(Running& running, int wait_ms, const WorkerWatch& watch, const Diary::OnStep& on_step) {
  const bool ended = running.child.wait(wait_ms);
  const Clock::time_point now = Clock::now();
  if (running.diary.read(on_step)) running.last_news = now;
  if (ended) {
    if (!WIFEXITED(running.child.status()) || WEXITSTATUS(running.child.status()) != 0) {
      return post_mortem(running.child.status(), running.diary, running.job_folder);
    }
    HTPIPE_TRY(running.response, response_in(running.job_folder));
    return {};
  }
  if (watch.cancelled && watch.cancelled()) {
    return fail(Code::kInterrupted,
                fmt::format("the vendor worker was stopped during step '{}'", running.diary.step()));
  }
  if (std::chrono::duration<double>(now - running.last_news).count() <= watch.timeout_s) return {};
  running.child.kill();
  running.diary.read(on_step);
  return fail(Error(Code::kVendorTimeout,
                    fmt::format("no progress for {} s during step '{}'", watch.timeout_s, running.diary.step()))
                  .at_node(running.diary.node()));
}

}  // namespace

Result<std::vector<Json>> run_workers(const fs::path& worker, const std::vector<WorkerJob>& jobs,
                                      const WorkerWatch& watch) {
  // A short job may end before it is looked at for the first time.
  if (watch.cancelled && watch.cancelled()) return fail(Code::kInterrupted, "before the vendor worker was started");
  std::vector<std::unique_ptr<Running>> all;
  for (const WorkerJob& job : jobs) {
    HTPIPE_TRY(auto running, start(worker, job));
    all.push_back(std::move(running));
  }
  std::size_t open = all.size();
  while (open > 0) {
    const int share_ms = std::max(1, kPollMs / static_cast<int>(open));
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i]->response) continue;
      const Diary::OnStep on_step = [&watch, i](const std::string& verb, const std::string& subject) {
        if (watch.on_step) watch.on_step(i, verb, subject);
      };
      HTPIPE_CHECK_OK(attend(*all[i], share_ms, watch, on_step));
      if (all[i]->response) --open;
    }
  }
  std::vector<Json> responses;
  for (const auto& running : all) responses.push_back(std::move(*running->response));
  return responses;
}

Result<Json> run_worker(const fs::path& worker, const fs::path& job_folder, Json request, const WorkerWatch& watch) {
  HTPIPE_TRY(std::vector<Json> responses, run_workers(worker, {{job_folder, std::move(request)}}, watch));
  return std::move(responses.front());
}

}  // namespace htpipe::qnn
