#include "pipeline/config.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "passes/order.h"
#include "target/spelling.h"
#include "target/strict_yaml.h"
#include "target/target.h"
#include "tensor/dtype.h"

namespace htpipe {
namespace {

constexpr std::int64_t kManySamples = 100'000'000;
constexpr double kIdxScale = 1.0 / 255.0;

void narrow(YamlMap& map, std::string_view key, int& out, int low, int high) {
  std::int64_t value = out;
  map.integer(key, value, low, high);
  out = static_cast<int>(value);
}

/// `source: {python: "package.module:factory"}`.
void read_python(YamlMap map, const std::filesystem::path& folder, PythonSource& python) {
  map.text("python", python.factory, Need::kRequired);
  const std::size_t colon = python.factory.find(':');
  if (!python.factory.empty() && (colon == std::string::npos || colon == 0 || colon + 1 == python.factory.size())) {
    map.complain("python", Code::kConfigType, "must be of the form \"package.module:factory\"");
  }
  python.folder = folder;
  YamlMap inputs = map.map("inputs");
  for (const std::string& name : inputs.keys()) {
    std::string type;
    inputs.text(name, type);
    if (type.empty()) continue;
    const std::size_t bracket = type.find('[');
    if (bracket == std::string::npos || type.back() != ']' || !parse_dtype(type.substr(0, bracket))) {
      inputs.complain(name, Code::kConfigType, fmt::format("{:?} is no type; write it like f32[1,3,224,224]", type));
    }
    python.inputs.emplace_back(name, std::move(type));
  }
  inputs.finish();
  narrow(map, "timeout_s", python.timeout_s, 1, 86400);
  map.finish();
}

/// `source: {pt2: model.pt2, dims: {batch: 1}}`, or with `onnx`.
void read_model_file(YamlMap map, ModelConfig& model) {
  map.path(map.has("onnx") ? "onnx" : "pt2", model.source, Need::kRequired);
  YamlMap dims = map.map("dims");
  for (const std::string& name : dims.keys()) {
    std::int64_t size = 0;
    dims.integer(name, size, 1, std::int64_t{1} << 31);
    model.dims[name] = size;
  }
  dims.finish();
  map.finish();
}

void read_model(YamlMap map, const std::filesystem::path& folder, ModelConfig& model) {
  map.text("id", model.id, Need::kRequired);
  if (map.has_map("source")) {
    YamlMap source = map.map("source");
    if (source.has("pt2") || source.has("onnx")) {
      read_model_file(std::move(source), model);
    } else {
      read_python(std::move(source), folder, model.python);
    }
  } else {
    map.path("source", model.source, Need::kRequired);
  }
  map.path("reference", model.reference);
  // The id names folders of the registry.
  const auto is_plain = [](char letter) {
    return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-' || letter == '_' || letter == '.';
  };
  if (!model.id.empty() &&
      (!std::all_of(model.id.begin(), model.id.end(), is_plain) || model.id.front() == '.' || model.id.size() > 100)) {
    map.complain("id", Code::kConfigType,
                 fmt::format("{:?} may hold only letters, digits, '.', '_' and '-', and not begin with '.'",
                             model.id.substr(0, 80)));
  }
  map.finish();
}

void read_idx_files(YamlMap map, bool labelled, SampleFiles& files) {
  map.path("images", files.inputs, Need::kRequired);
  if (labelled) map.path("labels", files.labels, Need::kRequired);
  map.integer("samples", files.samples, 1, kManySamples);
  map.finish();
}

void read_npz_file(YamlMap map, bool labelled, SampleFiles& files) {
  map.path("file", files.inputs, Need::kRequired);
  if (labelled) files.labels = files.inputs;
  map.integer("samples", files.samples, 1, kManySamples);
  map.finish();
}

void read_data(YamlMap map, DataConfig& data) {
  map.choice("format", data.format, {"idx", "npz"}, Need::kRequired);
  data.calibration.samples = 500;
  data.evaluation.samples = 10000;
  YamlMap calibration = map.map("calibration", Need::kRequired);
  YamlMap evaluation = map.map("evaluation", Need::kRequired);
  if (data.format == "idx") {
    data.scale = kIdxScale;
    read_idx_files(std::move(calibration), false, data.calibration);
    read_idx_files(std::move(evaluation), true, data.evaluation);
  } else if (data.format == "npz") {
    read_npz_file(std::move(calibration), false, data.calibration);
    read_npz_file(std::move(evaluation), true, data.evaluation);
    map.text("input_array", data.input_array);
    map.text("labels_array", data.labels_array);
  }
  map.real("scale", data.scale, -1.0e9, 1.0e9);
  map.real("offset", data.offset, -1.0e9, 1.0e9);
  if (data.scale == 0.0) map.complain("scale", Code::kConfigType, "0 would make every input alike");
  map.finish();
}

void read_bits(YamlMap& map, std::string_view key, int& out, int low, int high) {
  std::string text = std::to_string(out);
  map.choice(key, text, {std::to_string(low), std::to_string(high)});
  out = std::stoi(text);
}

void read_quantization(YamlMap map, QuantizationConfig& quantization) {
  read_bits(map, "weights", quantization.weights, 4, 8);
  read_bits(map, "activations", quantization.activations, 8, 16);
  map.choice("range", quantization.range, {"minmax", "percentile", "mse"});
  map.real("percentile", quantization.percentile, 50.0, 100.0);
  map.finish();
}

void read_gates(YamlMap map, GateConfig& gates) {
  map.real("layer_cosine", gates.layer_cosine, 0.0, 1.0);
  map.real("max_accuracy_drop", gates.max_accuracy_drop, 0.0, 1.0);
  narrow(map, "max_rounds", gates.max_rounds, 0, 100);
  map.text("alert", gates.alert);
  map.real("reference_tolerance", gates.reference_tolerance, 0.0, 1.0e9);
  map.integer("reference_samples", gates.reference_samples, 1, kManySamples);
  map.finish();
}

void read_emulator(YamlMap map, EmulatorConfig& emulator) {
  map.integer("layer_samples", emulator.layer_samples, 1, kManySamples);
  map.integer("task_samples", emulator.task_samples, 1, kManySamples);
  map.finish();
}

void read_vendor(YamlMap map, VendorConfig& vendor) {
  narrow(map, "timeout_s", vendor.timeout_s, 1, 86400);
  narrow(map, "optimization_level", vendor.optimization_level, 1, 3);
  map.finish();
}

void read_passes(YamlMap map, YamlFindings& findings, PipelineConfig& config) {
  const auto complain = [&findings](const Error& error, int line) {
    findings.add(Code::kConfigType, line, error.message, error.hint);
  };
  std::vector<std::pair<std::string, int>> steps;
  map.texts("order", steps);
  for (auto& [step, line] : steps) {
    if (auto passes = passes_of(step); !passes) complain(passes.error(), line);
    config.pass_order.push_back(std::move(step));
  }
  std::vector<std::pair<std::string, int>> skipped;
  map.texts("skip", skipped);
  map.finish();
  for (auto& [name, line] : skipped) {
    if (auto pass = known_pass(name); !pass) complain(pass.error(), line);
    config.skipped_passes.push_back(std::move(name));
  }
}

Status read_targets(YamlMap& map, YamlFindings& findings, std::vector<std::string>& ids) {
  std::vector<std::pair<std::string, int>> spellings;
  map.texts("targets", spellings, Need::kRequired);
  if (spellings.empty()) {
    if (map.has("targets") && findings.empty()) map.complain("targets", Code::kConfigType, "names no target");
    return {};
  }
  HTPIPE_TRY(const std::vector<Target> known, load_targets());
  for (const auto& [spelling, line] : spellings) {
    const Result<Target> target = find_target(spelling, known);
    if (!target) {
      findings.add(target.error().code, line, target.error().message, target.error().hint);
    } else if (std::find(ids.begin(), ids.end(), target->id) != ids.end()) {
      findings.add(Code::kConfigType, line, fmt::format("targets names {} twice", target->id));
    } else {
      ids.push_back(target->id);
    }
  }
  return {};
}

Json to_json(const SampleFiles& files) {
  Json json = {{"inputs", files.inputs.filename().string()}};
  if (!files.labels.empty()) json["labels"] = files.labels.filename().string();
  json["samples"] = files.samples;
  return json;
}

}  // namespace

Result<PipelineConfig> read_config(const std::filesystem::path& path) {
  HTPIPE_TRY(const YamlNode node, read_yaml(path));
  return config_of(node, path);
}

Result<PipelineConfig> config_of(const YamlNode& node, const std::filesystem::path& path) {
  YamlFindings findings(path);
  PipelineConfig config;
  config.file = path;
  config.output = path.parent_path() / "out";
  YamlMap map(node, "", findings);
  read_model(map.map("model", Need::kRequired), path.parent_path(), config.model);
  HTPIPE_CHECK_OK(read_targets(map, findings, config.targets));
  read_data(map.map("data", Need::kRequired), config.data);
  read_quantization(map.map("quantization"), config.quantization);
  read_gates(map.map("gates"), config.gates);
  read_emulator(map.map("emulator"), config.emulator);
  read_vendor(map.map("vendor"), config.vendor);
  read_passes(map.map("passes"), findings, config);
  map.path("output", config.output);
  map.finish();
  HTPIPE_CHECK_OK(findings.status());
  return config;
}

std::string source_text(const ModelConfig& model) {
  return model.python.empty() ? model.source.string() : model.python.factory;
}

Json to_json(const PipelineConfig& config) {
  Json data = {{"format", config.data.format},
               {"calibration", to_json(config.data.calibration)},
               {"evaluation", to_json(config.data.evaluation)},
               {"scale", config.data.scale},
               {"offset", config.data.offset}};
  if (config.data.format == "npz") {
    data["input_array"] = config.data.input_array;
    data["labels_array"] = config.data.labels_array;
  }
  Json model = {{"id", config.model.id}, {"source", config.model.source.filename().string()}};
  if (!config.model.python.empty()) {
    Json inputs = Json::object();
    for (const auto& [name, type] : config.model.python.inputs) inputs[name] = type;
    model["source"] = {{"python", config.model.python.factory}, {"inputs", std::move(inputs)}};
  }
  if (!config.model.dims.empty()) model["dims"] = config.model.dims;
  if (!config.model.reference.empty()) model["reference"] = config.model.reference.filename().string();
  Json quantization = {{"weights", config.quantization.weights},
                       {"activations", config.quantization.activations},
                       {"range", config.quantization.range}};
  if (config.quantization.range == "percentile") quantization["percentile"] = config.quantization.percentile;
  return {
      {"model", std::move(model)},
      {"targets", config.targets},
      {"data", std::move(data)},
      {"quantization", std::move(quantization)},
      {"gates",
       {{"layer_cosine", config.gates.layer_cosine},
        {"max_accuracy_drop", config.gates.max_accuracy_drop},
        {"max_rounds", config.gates.max_rounds},
        {"reference_tolerance", config.gates.reference_tolerance},
        {"reference_samples", config.gates.reference_samples}}},
      {"emulator", {{"layer_samples", config.emulator.layer_samples}, {"task_samples", config.emulator.task_samples}}},
      {"vendor", {{"timeout_s", config.vendor.timeout_s}, {"optimization_level", config.vendor.optimization_level}}},
      {"passes", {{"order", config.pass_order}, {"skip", config.skipped_passes}}}};
}

}  // namespace htpipe
