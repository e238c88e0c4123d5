// Watching a worker, with shell scripts in the worker's place: no vendor library is needed.
#include "qnn/worker_process.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>

#include "base/io.h"

namespace htpipe::qnn {
namespace {

namespace fs = std::filesystem;

class WorkerProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    auto folder = TemporaryFolder::create();
    ASSERT_TRUE(folder);
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
  }
  /// A worker that runs `body` in the job folder.
  fs::path worker(const std::string& body) {
    fs::path path = folder_->path() / "worker.sh";
    EXPECT_TRUE(write_file_atomic(path, "#!/bin/sh\ncd \"$1\"\n" + body + "\n"));
    EXPECT_EQ(::chmod(path.c_str(), 0755), 0);
    return path;
  }
  fs::path job(const std::string& name) {
    fs::path path = folder_->path() / name;
    EXPECT_TRUE(make_folder(path));
    return path;
  }
  Result<Json> run(const std::string& body, const WorkerWatch& watch = {}) {
    return run_worker(worker(body), job("job"), Json{{"job", "test"}}, watch);
  }
  std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(WorkerProcess, GivesTheResponseAndEveryStep) {
  std::vector<std::string> steps;
  WorkerWatch watch;
  watch.on_step = [&steps](std::size_t, const std::string& verb, const std::string& subject) {
    steps.push_back(verb + "|" + subject);
  };
  const auto response =
      run("grep -q '\"job\": \"test\"' request.json && grep -q \"\\\"parent_pid\\\": $PPID\" request.json || exit 9\n"
          "printf 'load\\nvalidate a node\\n' >> progress; sleep 0.1; printf 'finalize\\n' >> progress\n"
          "echo '{\"ok\": true, \"answer\": 42}' > response.json",
          watch);
  ASSERT_TRUE(response) << response.error().summary();
  EXPECT_EQ(response->at("answer"), 42);
  EXPECT_EQ(steps, (std::vector<std::string>{"load|", "validate|a node", "finalize|"}));
}

TEST_F(WorkerProcess, ErrorsOfTheJobArriveWhole) {
  const auto response = run(
      "echo '{\"ok\": false, \"error\": {\"code\": \"vendor-error\", \"message\": \"m\", \"file\": \"f\", \"node\": "
      "\"n\", \"notes\": [\"x\"], \"hint\": \"h\"}}' > response.json");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().summary(), "vendor-error: f: m (node n); x");
  EXPECT_EQ(response.error().next_step(), "h");
}

TEST_F(WorkerProcess, CrashNamesSignalStepNodeAndLastWords) {
  const auto response = run("printf 'load\\nvalidate conv1\\n' >> progress; echo 'last words'; kill -SEGV $$");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kVendorCrash);
  EXPECT_EQ(response.error().place.node, "conv1");
  EXPECT_NE(response.error().summary().find("SIGSEGV during step 'validate conv1'"), std::string::npos);
  EXPECT_NE(response.error().summary().find("last words"), std::string::npos);
}

TEST_F(WorkerProcess, AnExitStatusIsACrashEvenWithAResponse) {
  const auto response = run("echo '{\"ok\": true}' > response.json; exit 3");
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kVendorCrash);
}

TEST_F(WorkerProcess, TimeLimitCountsFromTheLastStepAndKillsTheGroup) {
  WorkerWatch watch;
  watch.timeout_s = 0.4;
  const auto begin = std::chrono::steady_clock::now();
  // Three steps inside the limit, then a child that would go on for long.
  const auto response =
      run("for i in 1 2 3; do sleep 0.2; echo \"add n$i\" >> progress; done\n"
          "(sleep 2; touch still_alive) & wait",
          watch);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, Code::kVendorTimeout);
  EXPECT_EQ(response.error().place.node, "n3");
  EXPECT_GT(took.count(), 0.9);
  EXPECT_LT(took.count(), 2.4);
  while (std::chrono::steady_clock::now() - begin < std::chrono::seconds(4)) ::usleep(50000);
  EXPECT_FALSE(fs::exists(folder_->path() / "job" / "still_alive"));
}

TEST_F(WorkerProcess, OneFailureEndsTheOthers) {
  const fs::path script = worker("case \"$1\" in *bad) exit 1;; *) sleep 30;; esac");
  const auto begin = std::chrono::steady_clock::now();
  const auto responses = run_workers(script, {{job("slow"), Json::object()}, {job("bad"), Json::object()}}, {});
  EXPECT_FALSE(responses);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(WorkerProcess, MissingOrDamagedResponsesAreErrors) {
  EXPECT_EQ(run("true").error().code, Code::kFileMissing);
  EXPECT_EQ(run("echo '{\"ok\": tr' > response.json").error().code, Code::kJsonInvalid);
  EXPECT_EQ(run("echo '[1]' > response.json").error().code, Code::kJsonShape);
  EXPECT_EQ(run("echo '{\"ok\": false, \"error\": 7}' > response.json").error().code, Code::kJsonShape);
  EXPECT_EQ(run_worker(folder_->path() / "none", job("job"), Json::object(), {}).error().code, Code::kFileMissing);
}

}  // namespace
}  // namespace htpipe::qnn
