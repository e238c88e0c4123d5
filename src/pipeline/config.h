// The pipeline file of `htpipe run` as plain data. Every key: docs/pipeline-file.md.
// Invariant: a PipelineConfig that read_config gave back is complete and within range; its paths are absolute or relative
// to the current folder, no longer to the file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "pipeline/python_bridge.h"

namespace htpipe {

struct YamlNode;

struct ModelConfig {
  std::string id;                ///< name in the registry: a-z, A-Z, 0-9, '.', '_' and '-'
  std::filesystem::path source;  ///< a model file; empty when Python code makes the model
  /// Numbers for the file's symbolic sizes: by name, or by place ("INPUT.AXIS").
  std::map<std::string, std::int64_t, std::less<>> dims;
  PythonSource python;              ///< what makes it then
  std::filesystem::path reference;  ///< npz with outputs recorded by PyTorch; empty = not compared
};

/// Where samples come from. In an idx file the whole file is one array; in an npz file `DataConfig` names the arrays.
struct SampleFiles {
  std::filesystem::path inputs;
  std::filesystem::path labels;  ///< the file of `inputs` for npz; empty for calibration
  std::int64_t samples = 0;      ///< the first so many
};

struct DataConfig {
  std::string format;  ///< "idx" or "npz"
  SampleFiles calibration;
  SampleFiles evaluation;
  double scale = 1.0;  ///< model input = stored value * scale + offset
  double offset = 0.0;
  std::string input_array = "input";    ///< npz only
  std::string labels_array = "labels";  ///< npz only
};

struct QuantizationConfig {
  int weights = 8;               ///< bits: 4 or 8
  int activations = 8;           ///< bits: 8 or 16
  std::string range = "minmax";  ///< "minmax", "percentile" or "mse"
  double percentile = 99.99;     ///< of the observed values, for range = percentile
};

struct GateConfig {
  double layer_cosine = 0.99;           ///< each layer's outputs against float32
  double max_accuracy_drop = 0.01;      ///< float32 top-1 minus the artifact's, as a fraction of 1
  int max_rounds = 4;                   ///< how often failing layers are given a higher precision
  std::string alert;                    ///< run by sh when a gate fails; empty = none
  double reference_tolerance = 1.0e-4;  ///< largest absolute difference from PyTorch's outputs
  std::int64_t reference_samples = 100;
};

struct EmulatorConfig {
  std::int64_t layer_samples = 16;  ///< samples whose every layer is compared on the vendor's emulator
  std::int64_t task_samples = 200;  ///< samples whose task accuracy is measured on it
};

struct VendorConfig {
  int timeout_s = 600;         ///< longest time of one vendor call
  int optimization_level = 3;  ///< of the HTP graph compiler, 1 to 3
};

struct PipelineConfig {
  std::filesystem::path file;  ///< the pipeline file itself
  ModelConfig model;
  std::vector<std::string> targets;  ///< ids of targets/*.yaml, in the order given, without repetition
  DataConfig data;
  QuantizationConfig quantization;
  GateConfig gates;
  EmulatorConfig emulator;
  VendorConfig vendor;
  std::vector<std::string> pass_order;  ///< steps; empty = the default order
  std::vector<std::string> skipped_passes;
  std::filesystem::path output;  ///< holds registry/ and cache/
};

/// Reads and checks a pipeline file; whether the files that it names exist is not looked at. All faults of the file come
/// as one error, the first by line, with a note for each of the others.
/// Errors: file-missing, file-unreadable; config-syntax, config-unknown-key, config-type, config-missing-key and
/// unknown-target, each at file:line.
Result<PipelineConfig> read_config(const std::filesystem::path& path);
/// The same for a document that was parsed already; `path` is its name in errors and the base of relative paths.
Result<PipelineConfig> config_of(const YamlNode& node, const std::filesystem::path& path);

/// The model's source as people name it: the file, or Python's "package.module:factory".
[[nodiscard]] std::string source_text(const ModelConfig& model);

/// What decides the results, for digests and records: without the paths of the machine (file names only), the alert and
/// the output folder.
[[nodiscard]] Json to_json(const PipelineConfig& config);

}  // namespace htpipe
