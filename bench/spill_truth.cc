// What the vendor's compiler plans for a model on a chip, beside what `htpipe check` says before anything is compiled.
//
//   spill_truth MODEL int8|int16 TARGET[@MB]...
//
// quantises the model by one made-up sample, compiles it for each target with that chip's VTCM (or MB of it) and prints a
// line of JSON per target. bench/spill_truth.py runs it over models and makes a table.
#include <fmt/core.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "bench/bench_tools.h"
#include "check/check.h"
#include "export/qnn_lowering.h"
#include "import/import_model.h"
#include "ops/registry.h"
#include "pipeline/execute.h"
#include "qnn/vendor.h"
#include "quant/quantize.h"

namespace htpipe {
namespace {

/// Reals from [-1, 1), integers and bools 0 or 1.
Tensor made_up(const TensorType& type, std::mt19937& random) {
  if (type.dtype != DType::kF32) return filled(type, 1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Tensor tensor(type);
  for (float& value : tensor.mutable_data<float>()) value = uniform(random);
  return tensor;
}

Result<Graph> quantised(const Graph& graph, Precision precision, const Target& target) {
  std::mt19937 random(1);
  std::vector<Tensor> sample;
  for (const Value* input : graph.inputs()) sample.push_back(made_up(input->type, random));
  const SampleSource source{1, [&](std::int64_t) -> Result<std::vector<Tensor>> { return sample; }};
  HTPIPE_TRY(const quant::Statistics statistics, quant::calibrate(graph, source));
  const int bits = precision == Precision::kInt16 ? 16 : 8;
  quant::QuantizeOptions options;
  options.default_precision = precision;
  options.wide_products = target.supports_int16_weights;
  return quant::quantize(graph, quant::choose_ranges(statistics, quant::RangeMethod::kMinMax, 100, bits), options);
}

Result<Json> measure(const check::Model& model, Precision precision, const Target& target, const qnn::Vendor& vendor) {
  check::CheckOptions options;
  options.precision = precision;
  HTPIPE_TRY(const check::CheckReport report, check::check_model(model, target, options));
  HTPIPE_TRY(const Graph graph, quantised(model.optimised, precision, target));
  HTPIPE_TRY(const qnn::GraphSpec spec, lower_to_qnn(graph));
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / fmt::format("spill_truth_{}_{}.bin", getpid(), target.id);
  qnn::ContextOptions context;
  context.vtcm_mb = target.vtcm_mb;
  Status status;
  const double seconds = bench::seconds_of([&] {
    if (auto done = vendor.compile_context(spec, device_of(target), path, context); !done) status = fail(done.error());
  });
  HTPIPE_CHECK_OK(status);
  HTPIPE_TRY(const qnn::ContextInfo info, vendor.inspect_context(path));
  std::filesystem::remove(path);
  const qnn::ContextGraphInfo& planned = info.graphs.at(0);
  return Json{{"target", target.id},
              {"precision", name_of(precision)},
              {"seconds", seconds},
              {"vtcm", planned.vtcm_bytes},
              {"spill", planned.spill_fill_bytes},
              {"file", info.file_bytes},
              {"blob", info.blob_bytes},
              {"io", planned.io_bytes},
              {"op_data", planned.op_data_bytes},
              {"constants", planned.const_bytes},
              {"ddr_tensors", planned.ddr_tensor_bytes},
              {"shared", planned.shared_weights_bytes},
              {"estimate", to_json(*report.memory)}};
}

Status run(const std::vector<std::string>& arguments) {
  register_all_ops();
  const auto precision = parse_precision(arguments[1]);
  if (!precision) return fail(Code::kUsage, fmt::format("no precision \"{}\"", arguments[1]));
  HTPIPE_TRY(ImportedModel imported, import_model(arguments[0]));
  HTPIPE_TRY(const check::Model model, check::prepare(std::move(imported.graph), {}));
  HTPIPE_TRY(const qnn::Vendor vendor, qnn::Vendor::find());
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::string& spelling = arguments[i];
    const std::size_t at = spelling.find('@');
    HTPIPE_TRY(Target target, find_target(spelling.substr(0, at)));
    if (at != std::string::npos) target.vtcm_mb = std::atoi(spelling.c_str() + at + 1);
    HTPIPE_TRY(const Json line, measure(model, *precision, target, vendor));
    fmt::print("{}\n", line.dump());
    std::fflush(stdout);
  }
  return {};
}

}  // namespace
}  // namespace htpipe

int main(int argc, char** argv) {
  if (argc < 4) {
    fmt::print("for bench/spill_truth.py: spill_truth MODEL int8|int16 TARGET[@MB]...\n");
    return argc == 1 ? 0 : 2;
  }
  const htpipe::Status status = htpipe::run({argv + 1, argv + argc});
  if (!status) fmt::print(stderr, "{}\n", status.error().summary());
  return status ? 0 : 1;
}
