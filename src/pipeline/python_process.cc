#include "pipeline/python_process.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <string_view>

#include "base/child_process.h"

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

}  // namespace

Result<PythonEnd> run_process(const PythonStart& start, int timeout_s, const std::function<bool()>& cancelled) {
  if (cancelled && cancelled()) return fail(Code::kInterrupted, "before Python was started");
  int failed = 0;
  ChildProcess child(
      {start.interpreter.string(), start.arguments, environment(start.python_path), start.input, start.output}, failed);
  if (failed != 0) {
    return fail(Error(Code::kPythonMissing, fmt::format("cannot start it: {}", std::strerror(failed)))
                    .in_file(start.interpreter.string()));
  }
  const auto begin = std::chrono::steady_clock::now();
  while (!child.wait(kPollMs)) {
    if (cancelled && cancelled()) return fail(Code::kInterrupted, "the Python process was stopped");
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    if (time.count() <= timeout_s) continue;
    Error error(Code::kPythonTimeout, fmt::format("the Python process took longer than {} s", timeout_s));
    const std::string output = end_of_file(start.output, kMostOutput);
    if (!output.empty()) error.notes.push_back("it printed: " + output);
    return fail(std::move(error));
  }
  return PythonEnd{child.how(), end_of_file(start.output, kMostOutput)};
}

}  // namespace htpipe
