// htpipe-vendor-worker: the only process that loads Qualcomm's libraries. Does the one job of its job folder.
// Invariant: a response file exists if and only if the job ended by itself; the worker never outlives its parent.
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "base/io.h"
#include "base/json.h"
#include "qnn/report_json.h"
#include "qnn/steps.h"
#include "qnn/vendor_log.h"
#include "qnn/worker_jobs.h"

namespace htpipe::qnn {
namespace {

/// Leaves without running destructors: the vendor's clean-up of a finished job can crash or hang; the kernel frees all.
[[noreturn]] void leave(int status) {
  std::fflush(nullptr);
  ::_exit(status);
}

Json response_of(const Result<Json>& result) {
  Json response = result ? *result : Json::object();
  response["ok"] = result.has_value();
  if (!result) response["error"] = error_to_json(result.error());
  response["log"] = vendor_log::lines();
  return response;
}

[[noreturn]] void work(const char* job_folder) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  if (::chdir(job_folder) != 0) leave(2);
  const auto request = read_json(kRequestFile);
  // The parent may have died before the signal was set up; then there is nobody to answer.
  if (request && request->value("parent_pid", 0) != ::getppid()) leave(1);
  Steps steps(kProgressFile);
  const Result<Json> result = request ? run_job(*request, steps) : Result<Json>(fail(request.error()));
  leave(write_json(kResponseFile, response_of(result)) ? 0 : 3);
}

}  // namespace
}  // namespace htpipe::qnn

#if defined(__SANITIZE_THREAD__)
// Qualcomm's libraries are not instrumented, so the sanitizer cannot see how their threads agree: what it reports of
// this process is not about our code, and would end it. A crash must reach the parent as the signal that it is.
extern "C" const char* __tsan_default_options() {
  return "report_bugs=0:handle_segv=0:handle_abort=0:handle_sigfpe=0:handle_sigbus=0:handle_sigill=0";
}
#endif

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: htpipe-vendor-worker JOB_FOLDER\nStarted by htpipe; not for use by hand.\n");
    return 2;
  }
  try {
    htpipe::qnn::work(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 70;
  }
}
