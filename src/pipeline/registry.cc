#include "pipeline/registry.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "base/io.h"
#include "base/version.h"
#include "ir/text.h"
#include "pipeline/provenance.h"

namespace htpipe {
namespace {

constexpr const char* kNoLatency = "latency needs the phone; it cannot be measured on this machine";

/// Layers by precision, as the seed's artifact schema lists them.
Json quantization_json(const Session& session, const TargetOutcome& outcome) {
  Json fp16 = Json::array();
  Json int16 = Json::array();
  Json int8 = Json::array();
  for (const Json& layer : outcome.layers) {
    const std::string precision = layer.at("precision");
    (precision == "fp16" ? fp16 : precision == "int16" ? int16 : int8).push_back(layer.at("value"));
  }
  const bool mixed = (fp16.empty() ? 0 : 1) + (int16.empty() ? 0 : 1) + (int8.empty() ? 0 : 1) > 1;
  return {{"strategy", mixed ? "mixed_precision" : "ptq"},
          {"default_bits", session.config.quantization.activations},
          {"weight_bits", session.config.quantization.weights},
          {"range", session.config.quantization.range},
          {"fp16_layers", std::move(fp16)},
          {"int16_layers", std::move(int16)},
          {"int8_layers", std::move(int8)},
          {"calibration_samples", session.calibration.count()},
          {"calibration_sha", session.calibration.digest()}};
}

Json accuracy_json(const TargetOutcome& outcome) {
  const double baseline = outcome.task.at("float_top1");
  const double quantized = outcome.task.at("engine_top1");
  return {
      {"task", "top-1"},        {"samples", outcome.task.at("samples")}, {"fp32_baseline", baseline},
      {"quantized", quantized}, {"delta", quantized - baseline},         {"gate", outcome.passed() ? "PASS" : "FAIL"}};
}

Json latency_json(const TargetOutcome& outcome) {
  return {{"median_ms", nullptr},
          {"p95_ms", nullptr},
          {"peak_memory_mb", nullptr},
          {"htp_op_coverage", outcome.coverage.at("htp_op_coverage")},
          {"reason", kNoLatency}};
}

Json identity_json(const Session& session, const TargetOutcome& outcome) {
  return {{"model_id", session.config.model.id},
          {"model_sha", session.model_sha},
          {"pipeline_version", kVersion},
          {"hardware_target", outcome.target.name}};
}

Json artifacts_json(const TargetOutcome& outcome) {
  const auto name = [](const std::filesystem::path& path) {
    return path.empty() ? Json(nullptr) : Json(path.filename().string());
  };
  Json json = {{"dlc", name(outcome.dlc)},
               {"context_binary", name(outcome.context_binary)},
               {"profile_json", "benchmark_results.json"},
               {"accuracy_json", "accuracy_report.json"}};
  if (outcome.dlc.empty()) json["missing"] = "model.dlc and model.bin need Qualcomm's libraries: run ./dev setup";
  return json;
}

Json metadata_json(const Session& session, const TargetOutcome& outcome) {
  Json json = identity_json(session, outcome);
  json["quantization"] = quantization_json(session, outcome);
  json["accuracy"] = accuracy_json(outcome);
  json["latency"] = latency_json(outcome);
  json["artifacts"] = artifacts_json(outcome);
  json["reproducibility"] = provenance_json(session, outcome.target);
  return json;
}

Json benchmark_json(const Session& session, const TargetOutcome& outcome) {
  Json json = identity_json(session, outcome);
  json["latency"] = latency_json(outcome);
  json["context_binary"] = outcome.context;
  json["coverage"] = outcome.coverage;
  return json;
}

Json accuracy_report_json(const Session& session, const TargetOutcome& outcome) {
  Json json = identity_json(session, outcome);
  json["accuracy"] = accuracy_json(outcome);
  json["gates"] = outcome.gates;
  json["failures"] = outcome.failures;
  json["task"] = outcome.task;
  json["rounds"] = outcome.rounds;
  json["layers"] = outcome.layers;
  return json;
}

}  // namespace

Result<std::filesystem::path> register_artifact(const Session& session, const TargetOutcome& outcome,
                                                const std::filesystem::path& registry) {
  const std::filesystem::path folder = registry / session.config.model.id / outcome.target.id;
  std::error_code error;
  std::filesystem::remove(folder / "manifest.json", error);
  remove_left_overs(folder);
  if (outcome.dlc.empty()) {
    // An older entry's vendor artifacts must not stand beside a newer entry that has none.
    std::filesystem::remove(folder / "model.dlc", error);
    std::filesystem::remove(folder / "model.bin", error);
  } else {
    HTPIPE_CHECK_OK(copy_file_atomic(outcome.dlc, folder / "model.dlc"));
    HTPIPE_CHECK_OK(copy_file_atomic(outcome.context_binary, folder / "model.bin"));
  }
  HTPIPE_CHECK_OK(write_file_atomic(folder / "graph.htir", print(*outcome.quantized)));
  HTPIPE_CHECK_OK(write_json(folder / "metadata.json", metadata_json(session, outcome)));
  HTPIPE_CHECK_OK(write_json(folder / "benchmark_results.json", benchmark_json(session, outcome)));
  HTPIPE_CHECK_OK(write_json(folder / "accuracy_report.json", accuracy_report_json(session, outcome)));
  Json files = Json::object();
  for (const char* name :
       {"accuracy_report.json", "benchmark_results.json", "graph.htir", "metadata.json", "model.bin", "model.dlc"}) {
    if (!std::filesystem::exists(folder / name, error)) continue;
    HTPIPE_TRY(files[name], sha256_file(folder / name));
  }
  HTPIPE_CHECK_OK(write_json(folder / "manifest.json", Json{{"format", 1}, {"files", std::move(files)}}));
  return folder;
}

}  // namespace htpipe
