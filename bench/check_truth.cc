// What `htpipe check` says of a model, and what Qualcomm's compiler and emulator then do with it.
// Usage: check_truth REQUEST.json; one line of JSON per case goes to the file that the request names.
// bench/check_truth.py writes the requests: {"model", "samples" (.npz, one sample per input), "answer", "dims", "fix",
// "cases": [[target, precision] …], "execute"}.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/io.h"
#include "base/json.h"
#include "check/check.h"
#include "check/findings.h"
#include "check/live_sets.h"
#include "exec/samples.h"
#include "export/qnn_lowering.h"
#include "import/import_model.h"
#include "ops/registry.h"
#include "pipeline/dataset.h"
#include "pipeline/execute.h"
#include "qnn/vendor.h"
#include "quant/calibrate.h"
#include "quant/quantize.h"
#include "tensor/npy.h"

namespace htpipe {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// Longest time without a step of the vendor's: a compiler that hangs has not compiled.
constexpr double kTimeLimit = 240;

struct Case {
  Target target;
  Precision precision;
};

/// The one sample in `arrays`, by the names of the graph's inputs.
Result<SampleSource> sample_of(const Graph& graph, const std::vector<NamedTensor>& arrays) {
  std::vector<Tensor> tensors;
  for (const Value* input : graph.inputs()) {
    const auto at =
        std::find_if(arrays.begin(), arrays.end(), [&](const NamedTensor& array) { return array.name == input->name; });
    if (at == arrays.end()) return fail(Error(Code::kDataFormat, "no such array").at_node(input->name));
    if (at->tensor.dtype() != input->type.dtype || at->tensor.count() != input->type.count()) {
      return fail(
          Error(Code::kDataShape, fmt::format("{} for {}", to_string(at->tensor.type()), to_string(input->type)))
              .at_node(input->name));
    }
    tensors.push_back(at->tensor.with_type(input->type));
  }
  return SampleSource{1, [tensors](std::int64_t) -> Result<std::vector<Tensor>> { return tensors; }};
}

class Truth {
 public:
  Truth(const Json& request, qnn::Vendor vendor) : request_(request), vendor_(std::move(vendor)) {}

  Status run() {
    ImportOptions options;
    for (const auto& [name, size] : request_.at("dims").items()) options.dims[name] = size.get<std::int64_t>();
    for (const auto& [name, value] : request_.at("fix").items()) {
      options.fix.emplace(name, filled({DType::kI64, {}, std::nullopt}, value.get<double>()));
    }
    const auto begin = Clock::now();
    HTPIPE_TRY(ImportedModel imported, import_model(request_.at("model").get<std::string>(), options));
    HTPIPE_TRY(model_, check::prepare(std::move(imported.graph), std::move(imported.warnings)));
    const double prepare_s = seconds_since(begin);
    std::ofstream answer(request_.at("answer").get<std::string>());
    for (const Json& one : request_.at("cases")) {
      HTPIPE_TRY(const Target target, find_target(one.at(0).get<std::string>()));
      const Precision precision = *parse_precision(one.at(1).get<std::string>());
      Json row = {{"target", target.id}, {"precision", name_of(precision)}, {"prepare_s", prepare_s}};
      HTPIPE_CHECK_OK(ask_check(target, precision, row));
      ask_compiler(target, precision, row);
      answer << row.dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
    }
    return {};
  }

 private:
  Status ask_check(const Target& target, Precision precision, Json& row) {
    const auto begin = Clock::now();
    HTPIPE_TRY(const check::Findings findings, check::find_obstacles(model_->optimised, target, precision, &vendor_));
    row["check_s"] = seconds_since(begin);
    row["nodes"] = model_->optimised.nodes().size();
    row["feasible"] = findings.feasible();
    row["note"] = findings.note;
    const check::Subject subject{model_->imported, model_->optimised, findings.assumed, target, precision};
    row["memory"] = to_json(check::estimate_memory(subject));
    if (request_.value("profile", false)) {
      Json profile = Json::array();
      for (const check::LiveStep& step : check::live_sets(findings.assumed)) {
        profile.push_back({step.node->op->name, step.read, step.written, step.weights, step.live, step.tiled});
      }
      row["profile"] = std::move(profile);
    }
    Json refused = Json::object();
    for (const auto& [node, finding] : findings.refused) {
      refused[node] = {{"op", model_->optimised.find_value(node)->producer->op->name},
                       {"rule", finding.rule},
                       {"vendor", finding.vendor}};
    }
    row["refused"] = std::move(refused);
    return {};
  }

  /// Fills in "compiles", and when it does not, "stage", "error" and "node".
  void ask_compiler(const Target& target, Precision precision, Json& row) {
    const auto begin = Clock::now();
    const char* stage = "quantise";
    const Status status = compile(target, precision, row, stage);
    row["compile_s"] = seconds_since(begin);
    row["compiles"] = status.has_value();
    if (status) return;
    row["stage"] = stage;
    row["error"] = status.error().summary();
    row["node"] = status.error().place.node;
  }

  Result<Graph> stored(const Target& target, Precision precision) {
    const auto& values = model_->optimised.values();
    const bool typed =
        std::any_of(values.begin(), values.end(), [](const auto& value) { return value->type.encoding.has_value(); });
    if (typed) return model_->optimised.clone();
    if (arrays_.empty()) {
      HTPIPE_TRY(arrays_, read_npz(request_.at("samples").get<std::string>()));
      HTPIPE_TRY(const SampleSource sample, sample_of(model_->optimised, arrays_));
      HTPIPE_TRY(statistics_, quant::calibrate(model_->optimised, sample));
    }
    quant::QuantizeOptions options;
    options.default_precision = precision;
    options.wide_products = target.supports_int16_weights;
    const int bits = precision == Precision::kInt16 ? 16 : 8;
    return quant::quantize(model_->optimised, quant::choose_ranges(statistics_, quant::RangeMethod::kMinMax, 100, bits),
                           options);
  }

  Status compile(const Target& target, Precision precision, Json& row, const char*& stage) {
    HTPIPE_TRY(const Graph graph, stored(target, precision));
    stage = "lower";
    HTPIPE_TRY(const qnn::GraphSpec spec, lower_to_qnn(graph));
    stage = "validate";
    HTPIPE_TRY(const std::vector<qnn::OpVerdict> verdicts, vendor_.validate(spec, target.soc_model));
    Json refused = Json::object();
    for (const qnn::OpVerdict& verdict : verdicts) {
      if (verdict.kind != qnn::OpVerdict::Kind::kSupported) refused[verdict.op] = verdict.type + ": " + verdict.reason;
    }
    const std::size_t count = refused.size();
    row["validator"] = std::move(refused);
    stage = "finalize";
    HTPIPE_TRY(const TemporaryFolder folder, TemporaryFolder::create());
    qnn::ContextOptions options;
    options.validate = false;
    const auto compiled = vendor_.compile_context(spec, device_of(target), folder.path() / "model.bin", options);
    row["finalizes"] = compiled.has_value();
    if (compiled) {
      row["context_bytes"] = compiled->size_bytes;
      HTPIPE_TRY(const qnn::ContextInfo context, vendor_.inspect_context(folder.path() / "model.bin"));
      row["spill_bytes"] = context.graphs.at(0).spill_fill_bytes;
      row["const_bytes"] = context.graphs.at(0).const_bytes;
      row["op_data_bytes"] = context.graphs.at(0).op_data_bytes;
      row["shared_bytes"] = context.graphs.at(0).shared_weights_bytes;
      row["ddr_bytes"] = context.graphs.at(0).ddr_tensor_bytes;
      row["io_bytes"] = context.graphs.at(0).io_bytes;
    }
    if (count > 0) {
      stage = "validate";
      return fail(Code::kTargetUnsupported, fmt::format("the validator refuses {} operators", count));
    }
    if (!compiled) return fail(compiled.error());
    if (!request_.value("execute", false)) return {};
    stage = "execute";
    qnn::ExecuteRequest execute;
    execute.context_binary = folder.path() / "model.bin";
    execute.device = device_of(target);
    execute.workers = 1;
    HTPIPE_TRY(const SampleSource sample, sample_of(model_->optimised, arrays_));
    const SampleSource inputs = stored_inputs(graph, sample);
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      HTPIPE_TRY(execute.inputs[graph.inputs()[i]->name], stack_input(graph, i, inputs));
    }
    HTPIPE_CHECK_OK(vendor_.execute(execute));
    return {};
  }

  const Json& request_;
  qnn::Vendor vendor_;
  std::optional<check::Model> model_;
  std::vector<NamedTensor> arrays_;
  quant::Statistics statistics_;
};

int run(const fs::path& path) {
  register_all_ops();
  const auto request = read_json(path);
  qnn::VendorOptions options;
  options.timeout_s = kTimeLimit;
  auto vendor = qnn::Vendor::find(options);
  Status status;
  if (!request) {
    status = fail(request.error());
  } else if (!vendor) {
    status = fail(vendor.error());
  } else {
    status = Truth(*request, std::move(*vendor)).run();
  }
  if (status) return 0;
  fmt::print(stderr, "{}\n", status.error().summary());
  for (const std::string& note : status.error().notes) fmt::print(stderr, "  {}\n", note);
  return 1;
}

}  // namespace
}  // namespace htpipe

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: check_truth REQUEST.json\n");
    return 2;
  }
  return htpipe::run(argv[1]);
}
