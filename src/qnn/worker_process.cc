// posix_spawn, the diary, the time limit and the post-mortem.
#include "qnn/worker_process.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/child_process.h"
#include "qnn/report_json.h"
#include "qnn/worker_jobs.h"

namespace htpipe::qnn {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kPollMs = 20;
constexpr std::size_t kMostOutput = 600;

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

/// The end of what the worker printed, for a post-mortem.
std::string last_output(const fs::path& job_folder) {
  std::string tail = end_of_file(job_folder / kOutputFile, kMostOutput);
  std::replace(tail.begin(), tail.end(), '\n', ' ');
  return tail;
}

tl::unexpected<Error> post_mortem(const ChildProcess& child, const Diary& diary, const fs::path& job_folder) {
  Error error(Code::kVendorCrash, fmt::format("the vendor worker {} during step '{}'", child.how(), diary.step()));
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
  Running(const ChildStart& start, const fs::path& folder, int& error)
      : child(start, error), diary(folder / kProgressFile), job_folder(folder) {}
  ChildProcess child;
  Diary diary;
  fs::path job_folder;
  Clock::time_point last_news = Clock::now();
  std::optional<Json> response;
};

Result<std::unique_ptr<Running>> start(const fs::path& worker, const WorkerJob& job) {
  Json request = job.request;
  request["parent_pid"] = ::getpid();
  HTPIPE_CHECK_OK(write_json(job.folder / kRequestFile, request));
  for (const char* name : {kResponseFile, kProgressFile, kOutputFile}) {
    std::error_code ignored;
    fs::remove(job.folder / name, ignored);
  }
  const ChildStart child{worker.string(), {job.folder.string()}, {}, "/dev/null", job.folder / kOutputFile};
  int failed = 0;
  auto running = std::make_unique<Running>(child, job.folder, failed);
  if (failed != 0) return fail(Error(Code::kFileMissing, std::strerror(failed)).in_file(worker.string()));
  return running;
}

/// Looks after one worker for up to `wait_ms`; fills its response when it is done.
Status attend(Running& running, int wait_ms, const WorkerWatch& watch, const Diary::OnStep& on_step) {
  const bool ended = running.child.wait(wait_ms);
  const Clock::time_point now = Clock::now();
  if (running.diary.read(on_step)) running.last_news = now;
  if (ended) {
    if (!running.child.succeeded()) return post_mortem(running.child, running.diary, running.job_folder);
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
