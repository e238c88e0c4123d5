#include "pipeline/target_run.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "pipeline/evaluate.h"
#include "pipeline/gates.h"
#include "pipeline/layers.h"
#include "pipeline/vendor_stages.h"

namespace htpipe {
namespace {

/// Our engine should give the emulator's stored values: all within one step, and this share exactly. Where an operator
/// is modelled less closely the report says so. Below the second bound our engine's task accuracy proves nothing.
constexpr double kEqualShare = 0.999;
constexpr double kWithinShare = 0.99;

quant::QuantizeOptions first_options(const QuantizationConfig& config) {
  quant::QuantizeOptions options;
  options.default_precision = config.activations == 16 ? Precision::kInt16 : Precision::kInt8;
  options.weight_bits = config.weights;
  return options;
}

Json raises_json(const std::vector<Raise>& raises) {
  Json json = Json::array();
  for (const Raise& raise : raises) {
    json.push_back({{"node", raise.node}, {"because", raise.because}, {"to", name_of(raise.to)}});
  }
  return json;
}

/// The row with the smallest judged cosine; null when there are no layers.
Json worst_layer(const Json& layers) {
  Json worst;
  for (const Json& layer : layers) {
    if (worst.is_null() || judged_cosine(layer) < judged_cosine(worst)) worst = layer;
  }
  return worst;
}

bool has_type(const Graph& graph, DType dtype) {
  const auto& values = graph.values();
  return std::any_of(values.begin(), values.end(), [dtype](const auto& value) { return value->type.dtype == dtype; });
}

class TargetRun {
 public:
  TargetRun(Session& session, const Target& target) : session_(session) {
    outcome_.target = target;
    outcome_.precision = first_options(session.config.quantization);
    outcome_.precision.wide_products = outcome_.target.supports_int16_weights;
    outcome_.rounds = Json::array();
  }

  Result<TargetOutcome> run() {
    HTPIPE_CHECK_OK(gate_loop());
    HTPIPE_CHECK_OK(measure_task());
    judge();
    return std::move(outcome_);
  }

 private:
  [[nodiscard]] const std::string& id() const { return outcome_.target.id; }
  [[nodiscard]] int htp_version() const { return outcome_.target.htp_version; }

  /// Quantise, compile, compare; raise what fails; again.
  Status gate_loop() {
    const GateConfig& gates = session_.config.gates;
    for (int round = 1;; ++round) {
      HTPIPE_CHECK_OK(quantise(round));
      if (session_.vendor) HTPIPE_CHECK_OK(compile());
      HTPIPE_CHECK_OK(compare(round));
      const std::vector<std::string> failing = failing_values(outcome_.layers, gates.layer_cosine);
      Json record = {
          {"round", round}, {"failing", failing}, {"worst", worst_layer(outcome_.layers)}, {"raised", Json::array()}};
      std::vector<Raise> raises;
      const auto top = highest_precision(outcome_.target);
      if (!failing.empty() && top && round <= gates.max_rounds) {
        raises = raise_precision(session_.optimised, failing, outcome_.precision, *top);
      }
      record["raised"] = raises_json(raises);
      outcome_.rounds.push_back(std::move(record));
      if (raises.empty()) return {};
      for (const Raise& raise : raises) outcome_.precision.precisions[raise.node] = raise.to;
    }
  }

  Status quantise(int round) {
    return session_.stage(fmt::format("quantise {}", round), id(), [&]() -> Result<std::string> {
      HTPIPE_TRY(Graph graph, quant::quantize(session_.optimised, session_.ranges, outcome_.precision));
      digest_ = digest(graph);
      outcome_.quantized.emplace(std::move(graph));
      std::map<std::string_view, int> counts;
      for (const auto& [node, precision] : quant::precisions_of(*outcome_.quantized)) ++counts[name_of(precision)];
      std::string line;
      for (const auto& [name, count] : counts) line += fmt::format("{}{} {}", line.empty() ? "" : ", ", count, name);
      return line;
    });
  }

  Status compile() {
    return session_.stage("compile", id(), [&]() -> Result<std::string> {
      HTPIPE_TRY(const Compiled compiled, compile_artifacts(session_, outcome_.target, *outcome_.quantized, digest_));
      outcome_.dlc = compiled.dlc;
      outcome_.context_binary = compiled.context_binary;
      outcome_.context = compiled.context;
      return fmt::format("DLC {} kB, context binary {} kB for {} {}", std::filesystem::file_size(compiled.dlc) / 1024,
                         std::filesystem::file_size(compiled.context_binary) / 1024, outcome_.target.soc,
                         outcome_.target.arch());
    });
  }

  Status compare(int round) {
    return session_.stage(fmt::format("compare layers {}", round), id(), [&]() -> Result<std::string> {
      const std::int64_t samples = session_.config.emulator.layer_samples;
      const std::string key =
          session_.key({"layers", digest_, session_.graph_digest, session_.evaluation.digest(),
                        chip_key(outcome_.target), std::to_string(samples), session_.vendor_versions.dump(),
                        std::to_string(session_.config.vendor.optimization_level)});
      HTPIPE_TRY(outcome_.layers, session_.cache.json("layers", key, [&]() -> Result<Json> {
        const SampleSource floats = session_.evaluation.floats(samples);
        std::map<std::string, Tensor> outputs;
        if (session_.vendor) {
          HTPIPE_TRY(outputs, emulate_all_values(session_, outcome_.target, outcome_.dlc, *outcome_.quantized, floats));
        }
        HTPIPE_TRY(const std::vector<LayerResult> layers,
                   compare_layers(session_.optimised, *outcome_.quantized, htp_version(), floats,
                                  session_.vendor ? &outputs : nullptr));
        Json rows = Json::array();
        for (const LayerResult& layer : layers) rows.push_back(to_json(layer));
        return rows;
      }));
      const Json worst = worst_layer(outcome_.layers);
      if (worst.is_null()) return std::string("no layers");
      return fmt::format("{} values on {} samples, worst cosine {:.5f} at {} ({})", outcome_.layers.size(), samples,
                         judged_cosine(worst), worst.at("value").get<std::string>(),
                         worst.at("layer").get<std::string>());
    });
  }

  Status measure_task() {
    HTPIPE_CHECK_OK(session_.stage("task accuracy, our engine", id(), [&]() -> Result<std::string> {
      const std::string key =
          session_.key({"task", digest_, session_.evaluation.digest(), htp_version() < 73 ? "v68" : "v73"});
      HTPIPE_TRY(const Json classes, session_.cache.json("task", key, [&]() -> Result<Json> {
        const SampleSource samples =
            stored_inputs(*outcome_.quantized, session_.evaluation.floats(session_.evaluation.count()));
        HTPIPE_TRY(const auto predicted, predict(*outcome_.quantized, htp_version(), samples, "evaluate " + id()));
        return Json(predicted);
      }));
      fixed_ = classes.get<std::vector<std::int64_t>>();
      outcome_.task = {{"samples", fixed_.size()},
                       {"float_top1", share_equal(session_.float_classes, session_.evaluation.labels())},
                       {"engine_top1", share_equal(fixed_, session_.evaluation.labels())},
                       {"emulator", nullptr}};
      return fmt::format("top-1 {:.2f} % of {} samples (float {:.2f} %)",
                         100 * outcome_.task["engine_top1"].get<double>(), fixed_.size(),
                         100 * outcome_.task["float_top1"].get<double>());
    }));
    if (!session_.vendor) return {};
    return session_.stage("task accuracy, emulator", id(), [&]() -> Result<std::string> {
      const std::int64_t samples = std::min(session_.config.emulator.task_samples, session_.evaluation.count());
      HTPIPE_TRY(const Json classes, emulate_classes(session_, outcome_.target, outcome_.context_binary,
                                                     *outcome_.quantized, digest_, samples));
      const auto emulated = classes.get<std::vector<std::int64_t>>();
      const auto head = [&](const std::vector<std::int64_t>& all) { return std::span(all).first(emulated.size()); };
      const auto labels = session_.evaluation.labels();
      outcome_.task["emulator"] = {{"samples", emulated.size()},
                                   {"emulator_top1", share_equal(emulated, labels)},
                                   {"float_top1_same_samples", share_equal(head(session_.float_classes), labels)},
                                   {"engine_top1_same_samples", share_equal(head(fixed_), labels)},
                                   {"same_class_as_engine", share_equal(emulated, head(fixed_))}};
      return fmt::format("top-1 {:.2f} % of {} samples (float {:.2f} %)", 100 * share_equal(emulated, labels),
                         emulated.size(), 100 * share_equal(head(session_.float_classes), labels));
    });
  }

  void judge() {
    const GateConfig& gates = session_.config.gates;
    const std::vector<std::string> failing = failing_values(outcome_.layers, gates.layer_cosine);
    outcome_.gates = {{"layer", failing.empty() ? "PASS" : "FAIL"}};
    if (!failing.empty()) {
      const Json worst = worst_layer(outcome_.layers);
      outcome_.failures.push_back(
          fmt::format("gate-layer: cosine of {} ({}) is {:.5f}, below {}", worst.at("value").get<std::string>(),
                      worst.at("layer").get<std::string>(), judged_cosine(worst), gates.layer_cosine));
    }
    judge_task("engine", outcome_.task["float_top1"].get<double>(), outcome_.task["engine_top1"].get<double>());
    if (!outcome_.task["emulator"].is_null() && outcome_.gates["task"] == "PASS") {
      const Json& emulator = outcome_.task["emulator"];
      judge_task("emulator", emulator["float_top1_same_samples"].get<double>(),
                 emulator["emulator_top1"].get<double>());
    }
    judge_engine();
  }

  void judge_task(std::string_view who, double float_top1, double quantized_top1) {
    const double drop = float_top1 - quantized_top1;
    // Shares are fractions of sample counts: a drop of just the allowed size must not fail by rounding.
    const bool passed = drop <= session_.config.gates.max_accuracy_drop + 1e-9;
    outcome_.gates["task"] = passed ? "PASS" : "FAIL";
    if (passed) return;
    outcome_.failures.push_back(fmt::format("gate-task: top-1 on the {} drops by {:.2f} points, allowed are {:.2f}",
                                            who, 100 * drop, 100 * session_.config.gates.max_accuracy_drop));
  }

  /// Integer graphs only: behind FP16 islands the last bits of our float sums are not the chip's.
  void judge_engine() {
    outcome_.gates["engine"] = "not judged";
    if (!session_.vendor || has_type(*outcome_.quantized, DType::kF16)) return;
    std::int64_t compared = 0;
    std::int64_t equal = 0;
    std::int64_t within = 0;
    for (const Json& layer : outcome_.layers) {
      if (layer.at("agreement").is_null()) continue;
      compared += layer.at("agreement").at("compared").get<std::int64_t>();
      equal += layer.at("agreement").at("equal").get<std::int64_t>();
      within += layer.at("agreement").at("within_one_step").get<std::int64_t>();
    }
    const auto share = [compared](std::int64_t part) {
      return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(compared, 1));
    };
    const bool exact = within == compared && share(equal) >= kEqualShare;
    const bool usable = share(within) >= kWithinShare;
    outcome_.gates["engine"] = exact ? "PASS" : usable ? "WARN" : "FAIL";
    if (exact) return;
    const std::string text =
        fmt::format("of {} compared elements {} differ from the emulator, {} by more than one step", compared,
                    compared - equal, compared - within);
    if (usable) {
      session_.warnings.push_back(fmt::format("{}: our engine and the emulator: {}", id(), text));
    } else {
      outcome_.failures.push_back("gate-engine: " + text);
    }
  }

  Session& session_;
  TargetOutcome outcome_;
  std::string digest_;
  std::vector<std::int64_t> fixed_;
};

}  // namespace

Result<TargetOutcome> run_target(Session& session, const Target& target) { return TargetRun(session, target).run(); }

}  // namespace htpipe
