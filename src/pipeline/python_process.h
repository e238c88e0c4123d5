// One Python process: started, watched, ended.
// Invariant: when run_process returns, the process and its group are dead and reaped.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace htpipe {

struct PythonStart {
  std::filesystem::path interpreter;  ///< a name without '/' is looked for in $PATH
  std::vector<std::string> arguments;
  std::filesystem::path python_path;  ///< put in front of PYTHONPATH; may be empty
  std::filesystem::path input;        ///< the file that is its stdin
  std::filesystem::path output;       ///< takes its stdout and stderr
};

struct PythonEnd {
  std::string how;     ///< "ended with status 1", "died by signal 9"
  std::string output;  ///< the end of what it printed, without line feeds behind it
};

/// Errors: python-missing (no such interpreter), python-timeout, interrupted. How it ended is no error here.
Result<PythonEnd> run_process(const PythonStart& start, int timeout_s, const std::function<bool()>& cancelled);

}  // namespace htpipe
