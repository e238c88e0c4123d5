#include "pipeline/front_stages.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "accuracy/metrics.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/io.h"
#include "base/parallel.h"
#include "check/findings.h"
#include "exec/program.h"
#include "import/import_model.h"
#include "passes/driver.h"
#include "pipeline/evaluate.h"
#include "pipeline/output_check.h"
#include "pipeline/python_bridge.h"
#include "pipeline/reference.h"
#include "pipeline/vendor_stages.h"
#include "quant/quantize.h"

namespace htpipe {
namespace {

/// Samples on which every pass is compared with the graph before it, and how far it may be off.
constexpr std::int64_t kPassSamples = 2;
constexpr double kPassTolerance = 1e-5;

Json ranges_json(const quant::Ranges& ranges) {
  Json json = Json::object();
  for (const auto& [name, range] : ranges) json[name] = {range.low, range.high};
  return json;
}

Result<quant::Ranges> ranges_of(const Json& json) {
  quant::Ranges ranges;
  for (const auto& [name, range] : json.items()) ranges[name] = {range.at(0).get<float>(), range.at(1).get<float>()};
  return ranges;
}

class FrontRun {
 public:
  FrontRun(const PipelineConfig& config, Cache& cache) : config_(config), cache_(cache) {}

  Result<Front> run() {
    HTPIPE_CHECK_OK(prepare());
    HTPIPE_CHECK_OK(optimise());
    HTPIPE_CHECK_OK(compare_with_reference());
    HTPIPE_CHECK_OK(calibrate());
    HTPIPE_CHECK_OK(float_baseline());
    return std::move(front_);
  }

 private:
  /// The model file; made by Python first where the pipeline file says so, which `record` tells then.
  Result<PythonModel> export_model(std::optional<StageRecord>& record) {
    if (config_.model.python.empty()) return PythonModel{config_.model.source, {}};
    const double begin = now_ms();
    PythonOptions options;
    options.cancelled = interrupted;
    cache_.begin_stage();
    auto made = export_python(config_.model.python, cache_, options);
    if (!made) return fail(std::move(made.error()).with_note("stage export"));
    record = StageRecord{"export", "", config_.model.python.factory, now_ms() - begin, cache_.last_was_cached()};
    return made;
  }

  /// Import comes before the session, which needs its results: its record is added when the session exists.
  Status prepare() {
    std::optional<StageRecord> exported;
    HTPIPE_TRY(const PythonModel made, export_model(exported));
    const double begin = now_ms();
    const auto in_stage = [](Error error) { return fail(std::move(error).with_note("stage import")); };
    ImportOptions import_options;
    import_options.dims = config_.model.dims;
    auto model = import_model(made.pt2, import_options);
    if (!model) return in_stage(std::move(model.error()));
    model->warnings.insert(model->warnings.begin(), made.warnings.begin(), made.warnings.end());
    auto model_sha = sha256_file(made.pt2);
    if (!model_sha) return in_stage(std::move(model_sha.error()));
    front_.imported = std::make_unique<Graph>(std::move(model->graph));
    front_.optimised = std::make_unique<Graph>(front_.imported->clone());
    const double imported = now_ms();

    const auto load = [&](const SampleFiles& files) -> Result<std::unique_ptr<Dataset>> {
      auto data = Dataset::load(config_.data, files, *front_.imported);
      if (!data) return fail(std::move(data.error()).with_note("stage data"));
      return std::make_unique<Dataset>(std::move(*data));
    };
    HTPIPE_TRY(front_.calibration, load(config_.data.calibration));
    HTPIPE_TRY(front_.evaluation, load(config_.data.evaluation));
    HTPIPE_TRY(const std::string program_digest, sha256_file("/proc/self/exe"));

    front_.session = std::unique_ptr<Session>(new Session{.config = config_,
                                                          .cache = cache_,
                                                          .program_digest = program_digest,
                                                          .model_sha = *model_sha,
                                                          .producer = model->producer,
                                                          .imported = *front_.imported,
                                                          .optimised = *front_.optimised,
                                                          .graph_digest = {},
                                                          .calibration = *front_.calibration,
                                                          .evaluation = *front_.evaluation,
                                                          .ranges = {},
                                                          .float_classes = {},
                                                          .vendor = std::nullopt,
                                                          .vendor_versions = nullptr,
                                                          .stages = {},
                                                          .warnings = std::move(model->warnings)});
    Session& session = *front_.session;
    std::map<std::string_view, int> counts;
    for (const auto& node : front_.imported->nodes()) ++counts[node->op->name];
    Json operators = Json::object();
    for (const auto& [name, count] : counts) operators[std::string(name)] = count;
    front_.import_report = {{"source", source_text(config_.model)},
                            {"sha256", *model_sha},
                            {"producer", session.producer},
                            {"operators", std::move(operators)}};
    if (exported) session.stages.push_back(*exported);
    session.stages.push_back({"import", "",
                              fmt::format("{} nodes, {} kinds of operators, {}", front_.imported->nodes().size(),
                                          counts.size(), session.producer),
                              imported - begin, false});
    session.stages.push_back({"data", "",
                              fmt::format("{} calibration and {} evaluation samples", front_.calibration->count(),
                                          front_.evaluation->count()),
                              now_ms() - imported, false});
    return find_vendor();
  }

  /// Without the libraries the run goes on; the report says which artifacts are missing and what adds them.
  Status find_vendor() {
    Session& session = *front_.session;
    const double begin = now_ms();
    qnn::VendorOptions options;
    options.timeout_s = config_.vendor.timeout_s;
    options.cancelled = interrupted;
    auto vendor = qnn::Vendor::find(options);
    if (!vendor && vendor.error().code != Code::kVendorMissing) {
      return fail(std::move(vendor.error()).with_note("stage vendor"));
    }
    if (!vendor) {
      session.warnings.push_back(
          "no model.dlc and model.bin are made, and the gates are judged on our engine: Qualcomm's "
          "libraries are not installed; ./dev setup adds them");
      session.stages.push_back({"vendor", "", "not installed", now_ms() - begin, false});
      return {};
    }
    session.vendor.emplace(std::move(*vendor));
    return session.stage("vendor", "", [&]() -> Result<std::string> {
      HTPIPE_TRY(session.vendor_versions, vendor_versions(*session.vendor, cache_, session.program_digest));
      return fmt::format("onnxruntime-qnn {}, {}", session.vendor_versions["wheel"].get<std::string>(),
                         session.vendor_versions["build_id"].get<std::string>());
    });
  }

  Status optimise() {
    Session& session = *front_.session;
    return session.stage("optimise", "", [&]() -> Result<std::string> {
      const SampleSource samples = front_.calibration->floats(kPassSamples);
      HTPIPE_TRY(const OutputValues before, outputs_of(*front_.imported, samples));
      PassOptions options;
      options.order = config_.pass_order;
      options.skip = config_.skipped_passes;
      options.check = [&](const Graph& graph, std::string_view) -> Status {
        HTPIPE_TRY(const OutputValues after, outputs_of(graph, samples));
        return same_outputs(graph, before, after, kPassTolerance);
      };
      HTPIPE_TRY(const std::vector<PassRecord> records, run_passes(*front_.optimised, options));
      session.graph_digest = digest(*front_.optimised);
      front_.passes_report = to_json(records);
      int rewrites = 0;
      for (const PassRecord& record : records) rewrites += record.rewrites;
      return fmt::format("{} nodes to {}, {} rewrites", front_.imported->nodes().size(),
                         front_.optimised->nodes().size(), rewrites);
    });
  }

  Status compare_with_reference() {
    if (config_.model.reference.empty()) return {};
    return front_.session->stage("compare with PyTorch", "",
                                 [&] { return compare_reference(*front_.session, config_.model.reference); });
  }

  Status calibrate() {
    Session& session = *front_.session;
    return session.stage("calibrate", "", [&]() -> Result<std::string> {
      const QuantizationConfig& options = config_.quantization;
      const std::string key =
          session.key({"calibrate", session.graph_digest, front_.calibration->digest(), options.range,
                       fmt::format("{} {}", options.percentile, options.activations)});
      HTPIPE_TRY(const Json ranges, cache_.json("calibrate", key, [&]() -> Result<Json> {
        HTPIPE_TRY(const quant::RangeMethod method, quant::parse_range_method(options.range));
        HTPIPE_TRY(const quant::Statistics statistics,
                   quant::calibrate(*front_.optimised, front_.calibration->floats(front_.calibration->count())));
        return ranges_json(quant::choose_ranges(statistics, method, options.percentile, options.activations));
      }));
      HTPIPE_TRY(session.ranges, ranges_of(ranges));
      return fmt::format("{} values on {} samples, {}", session.ranges.size(), front_.calibration->count(),
                         options.range);
    });
  }

  Status float_baseline() {
    Session& session = *front_.session;
    return session.stage("float baseline", "", [&]() -> Result<std::string> {
      const std::string key = session.key({"float", session.graph_digest, front_.evaluation->digest()});
      HTPIPE_TRY(const Json classes, cache_.json("float", key, [&]() -> Result<Json> {
        HTPIPE_TRY(
            const auto predicted,
            predict(*front_.optimised, 0, front_.evaluation->floats(front_.evaluation->count()), "evaluate float"));
        return Json(predicted);
      }));
      session.float_classes = classes.get<std::vector<std::int64_t>>();
      return fmt::format("top-1 {:.2f} % of {} samples",
                         100 * share_equal(session.float_classes, front_.evaluation->labels()),
                         session.float_classes.size());
    });
  }

  const PipelineConfig& config_;
  Cache& cache_;
  Front front_;
};

}  // namespace

Result<Front> run_front(const PipelineConfig& config, Cache& cache) { return FrontRun(config, cache).run(); }

Status check_front(const PipelineConfig& config) {
  std::filesystem::path file = config.model.source;
  std::optional<TemporaryFolder> folder;
  if (!config.model.python.empty()) {
    HTPIPE_TRY(folder, TemporaryFolder::create());
    PythonOptions options;
    options.cancelled = interrupted;
    HTPIPE_TRY(const PythonModel made, export_python(config.model.python, folder->path(), options));
    file = made.pt2;
  }
  ImportOptions import_options;
  import_options.dims = config.model.dims;
  HTPIPE_TRY(const ImportedModel model, import_model(file, import_options));
  HTPIPE_CHECK_OK(Dataset::load(config.data, config.data.calibration, model.graph));
  HTPIPE_CHECK_OK(Dataset::load(config.data, config.data.evaluation, model.graph));
  return {};
}

Result<Json> coverage_of(Session& session, const Target& target) {
  Json report;
  HTPIPE_CHECK_OK(session.stage("coverage", target.id, [&]() -> Result<std::string> {
    const Precision precision = session.config.quantization.activations == 16 ? Precision::kInt16 : Precision::kInt8;
    HTPIPE_TRY(const Coverage coverage, check::coverage_of(session.imported, session.optimised, target, precision));
    report = to_json(coverage);
    std::vector<std::string> refused;
    for (const NodeVerdict& node : coverage.nodes) {
      if (node.support == Support::kUnsupported)
        refused.push_back(fmt::format("{} ({}): {}", node.node, node.op, node.reason));
    }
    report["vendor"] = nullptr;
    std::int64_t vendor_refused = 0;
    if (session.vendor) {
      quant::QuantizeOptions options;
      options.default_precision = precision;
      options.weight_bits = session.config.quantization.weights;
      options.wide_products = target.supports_int16_weights;
      HTPIPE_TRY(const Graph quantized, quant::quantize(session.optimised, session.ranges, options));
      HTPIPE_TRY(report["vendor"], vendor_verdicts(session, target, quantized));
      for (const Json& row : report["vendor"]) {
        if (row["verdict"] == "supported") continue;
        ++vendor_refused;
        refused.push_back(fmt::format("{} ({}): the vendor's validator {}: {} {}", row["op"].get<std::string>(),
                                      row["type"].get<std::string>(), row["verdict"].get<std::string>(),
                                      row["code"].get<int>(), row["reason"].get<std::string>()));
      }
    }
    const double executed = static_cast<double>(session.optimised.nodes().size());
    report["htp_op_coverage"] =
        executed > 0
            ? 1.0 - static_cast<double>(std::max<std::int64_t>(vendor_refused, coverage.unsupported)) / executed
            : 1.0;
    if (!refused.empty()) {
      Error error(Code::kTargetUnsupported, fmt::format("{} nodes cannot be executed", refused.size()));
      error.notes = std::move(refused);
      return fail(std::move(error));
    }
    return fmt::format("{} native, {} rewritten, {} unsupported; vendor's validator: {}", coverage.native,
                       coverage.rewritten, coverage.unsupported,
                       session.vendor
                           ? fmt::format("{} of {} accepted", report["vendor"].size(), report["vendor"].size())
                           : std::string("not installed"));
  }));
  return report;
}

}  // namespace htpipe
