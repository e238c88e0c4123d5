// Work that only Python can do, in a Python process of its own: exporting the user's module, asking ONNX's own runtime.
// Invariant: the process is dead and reaped when a function returns; what it prints never reaches our stdout.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "pipeline/cache.h"
#include "tensor/tensor.h"

namespace htpipe {

struct PythonOptions {
  int timeout_s = 1800;             ///< longest time of one call
  std::function<bool()> cancelled;  ///< polled; may be empty
};

/// The interpreter: $HTPIPE_PYTHON, else .venv/bin/python of the project that the running program was built in, else
/// python3 of the search path.
[[nodiscard]] std::filesystem::path python_interpreter();

/// Runs `python -m htpipe._child COMMAND` with `request` and returns its result.
/// Errors: those that the Python code reports, with place and notes; python-missing (no interpreter, or it cannot import
/// htpipe); python-failed (the process died; with the end of what it printed); python-timeout; interrupted.
Result<Json> run_python(const std::string& command, Json request, const PythonOptions& options = {});

/// A model that Python code makes.
struct PythonSource {
  std::string factory;                                      ///< "package.module:factory"; empty = none
  std::filesystem::path folder;                             ///< put in front of Python's search path
  std::vector<std::pair<std::string, std::string>> inputs;  ///< name and type, "f32[1,3,32,32]"; empty = the factory's
  int timeout_s = 1800;

  [[nodiscard]] bool empty() const { return factory.empty(); }
};

struct PythonModel {
  std::filesystem::path pt2;
  std::vector<std::string> warnings;  ///< what the export did beyond the plain call, and fallback candidates
};

/// Exports what the factory makes, as a .pt2 below the cache folder. It is kept as long as the factory's source, the
/// files that it read, the versions of its libraries and the interpreter are the same. Errors: those of run_python.
Result<PythonModel> export_python(const PythonSource& source, Cache& cache, const PythonOptions& options = {});
/// The same without a cache: model.pt2 in `folder`.
Result<PythonModel> export_python(const PythonSource& source, const std::filesystem::path& folder,
                                  const PythonOptions& options = {});

/// What an exported ONNX file is compared with, and how.
struct OnnxVerification {
  std::filesystem::path exported;  ///< an .onnx with fixed shapes
  std::filesystem::path source;    ///< .onnx, .pt2 or .htir; empty = only the checker and one run
  std::uint64_t seed = 0;
  int samples = 1;
  /// Smallest and largest value per input. Else floats are normally distributed, integers and flags 0 or 1.
  std::map<std::string, std::pair<double, double>> ranges;
  /// Inputs of the source that the export does not have, with the values that they got.
  std::map<std::string, Tensor, std::less<>> fixed;
};

/// One output of the exported file against the source's.
struct OnnxDifference {
  std::string output;
  std::string source_output;
  double max_abs = 0;  ///< largest absolute difference
  double range = 0;    ///< largest minus smallest value of the source's output
};

struct OnnxReport {
  std::vector<OnnxDifference> outputs;
  std::string onnx_version;
  std::string runtime_version;
};

/// Runs ONNX's checker, then source and export in onnxruntime (a .pt2 in PyTorch, a .htir in our engine) on seeded
/// random inputs. Errors: graph-invalid with the checker's reason; python-missing without onnx, onnxruntime or torch;
/// python-failed with the runtime's reason; shape-mismatch, dynamic-shape, and those of run_python.
Result<OnnxReport> verify_onnx(const OnnxVerification& verification, const PythonOptions& options = {});

}  // namespace htpipe
