// What goes wrong with the vendor's libraries, and how it is told.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "qnn/sample_graph_test.h"
#include "qnn/vendor.h"

namespace htpipe::qnn {
namespace {

namespace fs = std::filesystem;
using testing::conv_graph;
using testing::conv_inputs;
using testing::find_vendor;
using testing::matmul_graph;

const DeviceChoice kTarget = {57, 75, "sm8650"};

class VendorFailure : public ::testing::Test {
 protected:
  void SetUp() override {
    auto found = find_vendor();
    if (!found && found.error().code == Code::kVendorMissing) GTEST_SKIP() << found.error().summary();
    ASSERT_TRUE(found) << found.error().summary();
    vendor_ = std::make_unique<Vendor>(std::move(*found));
    auto folder = TemporaryFolder::create();
    ASSERT_TRUE(folder);
    folder_ = std::make_unique<TemporaryFolder>(std::move(*folder));
  }
  [[nodiscard]] fs::path path(const std::string& name) const { return folder_->path() / name; }
  std::unique_ptr<Vendor> vendor_;
  std::unique_ptr<TemporaryFolder> folder_;
};

TEST_F(VendorFailure, CrashInValidationNamesTheNodeAndTheOthersAreStillJudged) {
  const auto verdicts = vendor_->validate(matmul_graph(false), 57);
  ASSERT_TRUE(verdicts) << verdicts.error().summary();
  ASSERT_EQ(verdicts->size(), 3U);
  EXPECT_EQ((*verdicts)[0].kind, OpVerdict::Kind::kSupported);
  EXPECT_EQ((*verdicts)[1].kind, OpVerdict::Kind::kCrashed);
  EXPECT_EQ((*verdicts)[1].op, "matmul");
  EXPECT_NE((*verdicts)[1].reason.find("SIGSEGV"), std::string::npos) << (*verdicts)[1].reason;
  EXPECT_EQ((*verdicts)[2].kind, OpVerdict::Kind::kSupported);
  // With both parameters written out the same operator is judged, and taken.
  const auto without_crash = vendor_->validate(matmul_graph(true), 57);
  ASSERT_TRUE(without_crash);
  EXPECT_EQ((*without_crash)[1].kind, OpVerdict::Kind::kSupported) << (*without_crash)[1].reason;
}

TEST_F(VendorFailure, CrashInCompilationIsAnErrorAtTheNode) {
  const auto report = vendor_->compile_context(matmul_graph(false), kTarget, path("a.bin"));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kVendorCrash);
  EXPECT_EQ(report.error().place.node, "matmul");
  EXPECT_NE(report.error().place.target.find("sm8650"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("a.bin")));
}

TEST_F(VendorFailure, RefusedOperatorEndsCompilationWithCodeAndNode) {
  GraphSpec graph = conv_graph();
  graph.ops[1].type = "NoSuchOperator";
  const auto report = vendor_->compile_context(graph, kTarget, path("a.bin"));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kVendorError);
  EXPECT_EQ(report.error().place.node, "relu1");
  EXPECT_NE(report.error().message.find("4005 QNN_BACKEND_ERROR_OP_PACKAGE_NOT_FOUND"), std::string::npos)
      << report.error().message;
  EXPECT_EQ(report.error().next_step(), "htpipe explain 4005");
}

TEST_F(VendorFailure, TimeLimitNamesTheStep) {
  VendorOptions options;
  options.timeout_s = 1e-6;
  const auto impatient = find_vendor(options);
  ASSERT_TRUE(impatient);
  const auto report = impatient->compile_context(conv_graph(), kTarget, path("a.bin"));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kVendorTimeout);
  EXPECT_NE(report.error().message.find("during step"), std::string::npos);
  EXPECT_FALSE(fs::exists(path("a.bin")));
}

TEST_F(VendorFailure, CancelledRunsEndAsInterrupted) {
  VendorOptions options;
  options.cancelled = [] { return true; };
  const auto cancelled = find_vendor(options);
  ASSERT_TRUE(cancelled);
  EXPECT_EQ(cancelled->versions().error().code, Code::kInterrupted);
}

TEST_F(VendorFailure, DamagedContextBinaries) {
  ASSERT_TRUE(vendor_->compile_context(conv_graph(), kTarget, path("a.bin")));
  const auto whole = read_text(path("a.bin"));
  ASSERT_TRUE(whole);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{100}, whole->size() / 2, whole->size() - 4096}) {
    ASSERT_TRUE(write_file_atomic(path("cut.bin"), std::string_view(*whole).substr(0, size)));
    const auto info = vendor_->inspect_context(path("cut.bin"));
    ASSERT_FALSE(info) << size;
    EXPECT_EQ(info.error().code, Code::kContextInvalid) << info.error().summary();
    ExecuteRequest request;
    request.context_binary = path("cut.bin");
    request.inputs = conv_inputs(1);
    const auto run = vendor_->execute(request);
    ASSERT_FALSE(run) << size;
    EXPECT_EQ(run.error().code, Code::kContextInvalid) << run.error().summary();
  }
  EXPECT_EQ(vendor_->inspect_context(path("none.bin")).error().code, Code::kFileMissing);
}

TEST_F(VendorFailure, DamagedDlcs) {
  ASSERT_TRUE(vendor_->compile_dlc(conv_graph(), path("a.dlc")));
  const auto whole = read_text(path("a.dlc"));
  ASSERT_TRUE(whole);
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{100}, whole->size() / 2, whole->size() - 1}) {
    ASSERT_TRUE(write_file_atomic(path("cut.dlc"), std::string_view(*whole).substr(0, size)));
    const auto info = vendor_->inspect_dlc(path("cut.dlc"));
    ASSERT_FALSE(info) << size;
    EXPECT_EQ(info.error().code, Code::kDlcInvalid) << info.error().summary();
    const auto report = vendor_->compile_context(path("cut.dlc"), kTarget, path("a.bin"));
    ASSERT_FALSE(report) << size;
    EXPECT_EQ(report.error().code, Code::kDlcInvalid) << report.error().summary();
  }
  EXPECT_FALSE(fs::exists(path("a.bin")));
}

TEST_F(VendorFailure, OneFlippedBitInADlcIsNoticed) {
  ASSERT_TRUE(vendor_->compile_dlc(conv_graph(), path("a.dlc")));
  const auto whole = read_text(path("a.dlc"));
  ASSERT_TRUE(whole);
  // In the weights, which the vendor's reader takes as they come.
  for (std::size_t at = 1000; at < 5000; at += 997) {
    std::string changed = *whole;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    ASSERT_TRUE(write_file_atomic(path("b.dlc"), std::string_view(changed)));
    EXPECT_EQ(vendor_->inspect_dlc(path("b.dlc")).error().code, Code::kDlcInvalid) << at;
  }
}

TEST_F(VendorFailure, WrongChipIsTold) {
  const auto mismatch = vendor_->compile_context(conv_graph(), {57, 73, "sm8650"}, path("a.bin"));
  ASSERT_FALSE(mismatch);
  EXPECT_EQ(mismatch.error().code, Code::kVendorMismatch) << mismatch.error().summary();
  const auto unknown = vendor_->compile_context(conv_graph(), {99999, 0, ""}, path("a.bin"));
  ASSERT_FALSE(unknown);
  EXPECT_EQ(vendor_->compile_context(conv_graph(), {}, path("a.bin")).error().code, Code::kUsage);
  EXPECT_FALSE(fs::exists(path("a.bin")));
}

TEST_F(VendorFailure, WrongInputsAreTold) {
  const GraphSpec graph = conv_graph();
  const auto code_of = [&](std::map<std::string, Tensor> inputs) {
    ExecuteRequest request;
    request.graph = &graph;
    request.device = kTarget;
    request.inputs = std::move(inputs);
    const auto report = vendor_->execute(request);
    return report ? std::string_view("accepted") : word(report.error().code);
  };
  EXPECT_EQ(code_of({}), "data-shape");
  EXPECT_EQ(code_of({{"x", Tensor({DType::kU8, {1, 8, 8, 4}, {}})}}), "data-shape");
  EXPECT_EQ(code_of({{"x", Tensor({DType::kF32, {1, 8, 8, 3}, {}})}}), "data-dtype");
  EXPECT_EQ(code_of({{"x", Tensor({DType::kU8, {1, 8, 8, 3}, Encoding::per_tensor(1.0F, 0, 8)})}}), "data-dtype");
  EXPECT_EQ(code_of({{"x", Tensor({DType::kU8, {1, 8, 8, 3}, {}})}, {"z", Tensor({DType::kU8, {1}, {}})}}),
            "data-shape");
  EXPECT_EQ(code_of({{"x", Tensor({DType::kU8, {1, 8, 8, 3}, {}})}}), "accepted");
  EXPECT_EQ(vendor_->execute({}).error().code, Code::kUsage);
}

TEST_F(VendorFailure, UnknownCompilerOptionIsAUsageError) {
  ContextOptions options;
  options.custom = {{"make_it_fast", 1}};
  EXPECT_EQ(vendor_->compile_context(conv_graph(), kTarget, path("a.bin"), options).error().code, Code::kUsage);
  options.custom = {{"hvx_threads", 0.5}};
  EXPECT_EQ(vendor_->compile_context(conv_graph(), kTarget, path("a.bin"), options).error().code, Code::kUsage);
}

TEST_F(VendorFailure, UnwritableOutputIsTold) {
  const auto report = vendor_->compile_dlc(conv_graph(), "/proc/no/such/a.dlc");
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kOutputUnwritable);
}

TEST(VendorMissing, NamesWhatIsMissingAndWhereItLooked) {
  auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  VendorOptions options;
  options.folder = folder->path();
  const auto vendor = Vendor::find(options);
  ASSERT_FALSE(vendor);
  EXPECT_EQ(vendor.error().code, Code::kVendorMissing);
  EXPECT_NE(vendor.error().message.find("libQnnHtp.so"), std::string::npos);
  const VendorInstall install = find_install(folder->path());
  EXPECT_FALSE(install.complete());
  EXPECT_EQ(install.missing.size(), 4U);
}

struct ProcessState {
  char state = 'X';  ///< X = gone
  pid_t parent = 0;
};

ProcessState state_of(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::string text;
  std::getline(file, text);
  const auto close = text.rfind(')');  // the name may hold spaces
  ProcessState process;
  if (close == std::string::npos) return process;
  std::istringstream rest(text.substr(close + 1));
  rest >> process.state >> process.parent;
  return process;
}

bool is_running(pid_t pid) {
  const char state = state_of(std::to_string(pid)).state;
  return state != 'X' && state != 'Z';  // who reaps an orphan depends on the machine
}

/// A running process whose parent is `parent`, or 0.
pid_t child_of(pid_t parent) {
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos || state_of(name).parent != parent) continue;
    const auto pid = static_cast<pid_t>(std::stol(name));
    if (is_running(pid)) return pid;
  }
  return 0;
}

TEST_F(VendorFailure, WorkerDiesWithItsParent) {
  const pid_t parent = ::fork();
  if (parent == 0) {
    const GraphSpec graph = conv_graph();
    ExecuteRequest request;
    request.graph = &graph;
    request.device = kTarget;
    request.inputs = conv_inputs(200000);
    const auto ignored = vendor_->execute(request);
    ::_exit(ignored ? 0 : 1);
  }
  ASSERT_GT(parent, 0);
  const auto until = [](const std::function<bool()>& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return condition();
  };
  pid_t worker = 0;
  EXPECT_TRUE(until([&] { return (worker = child_of(parent)) != 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_TRUE(is_running(worker));
  ::kill(parent, SIGKILL);
  int status = 0;
  ::waitpid(parent, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(until([&] { return !is_running(worker); }));
}

}  // namespace
}  // namespace htpipe::qnn
