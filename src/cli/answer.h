// What a command gives back, and the command line that it was called with, as plain data.
// Invariant: commands never print; main shows the answer as text or as one JSON document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace htpipe::cli {

/// Flags that every command has, on either side of the verb.
struct GlobalOptions {
  int verbose = 0;  ///< 1 = what each stage does, 2 = debugging
  bool quiet = false;
  bool json = false;
  bool no_color = false;
};

/// A parsed command line.
struct Arguments {
  GlobalOptions global;
  std::string verb;
  std::string subject;               ///< explain: the code; run: the pipeline file; else the file
  std::vector<std::string> targets;  ///< -t, as typed
  std::filesystem::path output;      ///< -o
  bool dry_run = false;
  bool force = false;
  bool graph = false;
  bool dependencies = false;
  std::string precision = "int8";
  std::vector<std::string> dims;    ///< --dim, as typed; see import_args.h
  std::vector<std::string> shapes;  ///< --shape
  std::vector<std::string> fixed;   ///< --fix
  std::int64_t opset = 17;
  bool external_data = false;
  bool no_verify = false;
  std::string engine = "float";                                 ///< exec: --engine
  std::string compare;                                          ///< exec: --compare, another engine
  std::filesystem::path inputs;                                 ///< exec: --inputs
  bool trace = false;                                           ///< exec: --trace
  std::vector<std::string> trace_values;                        ///< exec: values behind --trace; empty = all
  bool native = false;                                          ///< exec: stored values instead of float32
  bool no_optimize = false;                                     ///< exec: the graph as it was imported
  std::filesystem::path csv;                                    ///< check: --csv
  std::filesystem::path html;                                   ///< check: --html
  std::filesystem::path apply;                                  ///< check: where the model with the fixes goes
  bool no_validator = false;                                    ///< check: our rules alone
  bool all = false;                                             ///< check: a line for every node
  std::filesystem::path order;                                  ///< optimize: --order, a text of steps
  std::string stop_after;                                       ///< optimize: a pass
  std::vector<std::string> skipped;                             ///< optimize: --skip, passes
  bool bisect = false;                                          ///< optimize: search for the pass at fault
  bool verify = false;                                          ///< optimize: execute after every pass
  std::filesystem::path reference;                              ///< optimize: outputs for --inputs
  double tolerance = std::numeric_limits<double>::quiet_NaN();  ///< optimize: relative; NaN = the default
  std::filesystem::path dump;                                   ///< optimize: folder of a text per run
  bool print_order = false;                                     ///< optimize: the order of passes instead
  bool list = false;                                            ///< optimize: the passes instead
};

/// The result of a command that ran to its end. A failed gate is such a result, with exit code 3.
struct Answer {
  Answer();
  Answer(Answer&&) noexcept;
  Answer& operator=(Answer&&) noexcept;
  ~Answer();

  std::unique_ptr<Json> json;  ///< never null
  std::string text;            ///< for people; ends with a line feed
  std::string brief;           ///< all that -q shows; usually a path or nothing
  int exit_code = 0;
  std::string failure;  ///< last line on stderr when exit_code is not 0
};

/// The commands, one file each.
Result<Answer> run(const Arguments& arguments);
Result<Answer> check(const Arguments& arguments);
Result<Answer> convert(const Arguments& arguments);
Result<Answer> exec(const Arguments& arguments);
Result<Answer> explain(const Arguments& arguments);
Result<Answer> doctor(const Arguments& arguments);
Result<Answer> info(const Arguments& arguments);
Result<Answer> optimize(const Arguments& arguments);
Result<Answer> targets(const Arguments& arguments);
Result<Answer> version(const Arguments& arguments);

}  // namespace htpipe::cli
