// One network, quantised from samples, on the emulator of one chip: every value inside, element by element, twice.
// "chained": our engine from the inputs on, so that a difference goes on through all that follows. "local": each
// operator alone, on the values that the emulator had there; what differs here is this operator's own.
// Usage: network_fidelity REQUEST.json; the answer, as JSON, goes to the file that the request names.
// tests/fidelity/networks.py writes the requests.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <list>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "accuracy/metrics.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/json.h"
#include "exec/program.h"
#include "export/qnn_lowering.h"
#include "import/import_model.h"
#include "ir/text.h"
#include "ops/registry.h"
#include "passes/driver.h"
#include "pipeline/dataset.h"
#include "qnn/vendor.h"
#include "quant/quantize.h"
#include "tensor/npy.h"

namespace htpipe::fidelity {
namespace {

namespace fs = std::filesystem;
using Outputs = std::map<std::string, Tensor>;

/// What the request says.
struct Request {
  fs::path model;
  fs::path samples;  ///< .npz: an array per input, first dimension the samples
  fs::path answer;
  fs::path cache;  ///< folder of the emulator's answers; empty = none
  fs::path text;   ///< where the quantised graph is written; empty = nowhere
  std::map<std::string, std::int64_t> dims;
  std::uint32_t soc_model = 0;
  int htp_version = 0;
  Precision precision = Precision::kInt8;
  std::int64_t calibrate = 0;  ///< the first samples calibrate
  std::int64_t evaluate = 0;   ///< the samples behind them are compared
  bool layers = true;          ///< every value, not the outputs alone
  std::string dump;            ///< a node whose operands and results, ours and theirs, are written beside the answer
};

Result<Request> read_request(const fs::path& path) {
  HTPIPE_TRY(const std::string text, read_text(path));
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return fail(Error(Code::kDataFormat, "no JSON").in_file(path.string()));
  Request request;
  request.model = json.at("model").get<std::string>();
  request.samples = json.at("samples").get<std::string>();
  request.answer = json.at("answer").get<std::string>();
  request.cache = json.value("cache", "");
  request.text = json.value("text", "");
  request.dims = json.value("dims", std::map<std::string, std::int64_t>());
  request.soc_model = json.at("soc_model").get<std::uint32_t>();
  request.htp_version = json.at("htp_version").get<int>();
  request.precision = json.at("precision").get<std::string>() == "int16" ? Precision::kInt16 : Precision::kInt8;
  request.calibrate = json.at("calibrate").get<std::int64_t>();
  request.evaluate = json.at("evaluate").get<std::int64_t>();
  request.layers = json.value("layers", true);
  request.dump = json.value("dump", "");
  return request;
}

/// The samples [first, first + count) as inputs of `graph`.
Result<SampleSource> source_of(const Graph& graph, const std::vector<NamedTensor>& arrays, std::int64_t first,
                               std::int64_t count) {
  std::vector<std::pair<TensorType, Tensor>> inputs;
  for (const Value* input : graph.inputs()) {
    const auto at =
        std::find_if(arrays.begin(), arrays.end(), [&](const NamedTensor& a) { return a.name == input->name; });
    if (at == arrays.end()) return fail(Error(Code::kDataFormat, "no such array").at_node(input->name));
    const Tensor& all = at->tensor;
    if (all.dtype() != input->type.dtype || all.count() < (first + count) * input->type.count()) {
      return fail(Error(Code::kDataShape, fmt::format("{} for {} samples of {}", to_string(all.type()), first + count,
                                                      to_string(input->type)))
                      .at_node(input->name));
    }
    inputs.emplace_back(input->type, all);
  }
  return SampleSource{count, [inputs, first](std::int64_t index) -> Result<std::vector<Tensor>> {
                        std::vector<Tensor> tensors;
                        for (const auto& [type, all] : inputs) {
                          const std::size_t size = type.size_bytes();
                          tensors.emplace_back(type, nullptr,
                                               all.bytes().data() + static_cast<std::size_t>(first + index) * size);
                        }
                        return tensors;
                      }};
}

/// What the emulator answers, from the folder of answers where it has been asked before.
class Emulator {
 public:
  Emulator(const Request& request, qnn::Vendor vendor) : request_(request), vendor_(std::move(vendor)) {}

  Result<Outputs> run(const Graph& graph, const qnn::GraphSpec& spec, const std::map<std::string, Tensor>& inputs,
                      bool expose) const {
    Sha256 hash;
    hash.add(vendor_.install().wheel_version);
    hash.add(digest(graph));
    for (const qnn::OpSpec& op : spec.ops) {
      hash.add(op.type);
      for (const std::string& name : op.inputs) hash.add(name);
    }
    for (const auto& [name, tensor] : inputs) hash.raw(tensor.bytes());
    hash.add(static_cast<std::int64_t>(request_.soc_model) * 2 + (expose ? 1 : 0));
    const fs::path file = request_.cache / (hash.hex() + ".npz");
    if (!request_.cache.empty() && fs::exists(file)) {
      HTPIPE_TRY(const std::vector<NamedTensor> arrays, read_npz(file));
      Outputs outputs;
      for (const NamedTensor& array : arrays) outputs[array.name] = array.tensor;
      return outputs;
    }
    qnn::ExecuteRequest execute;
    execute.graph = &spec;
    execute.expose_natives = expose;
    execute.device.soc_model = request_.soc_model;
    execute.inputs = inputs;
    execute.options.validate = false;  // the caller has asked for every operator's verdict
    execute.workers = 1;
    HTPIPE_TRY(qnn::ExecuteReport report, vendor_.execute(execute));
    if (!request_.cache.empty()) {
      std::vector<NamedTensor> arrays;
      for (const auto& [name, tensor] : report.outputs) {
        TensorType plain = tensor.type();
        plain.encoding.reset();
        arrays.push_back({name, tensor.with_type(plain)});
      }
      HTPIPE_CHECK_OK(write_npz(file, arrays));
    }
    return std::move(report.outputs);
  }

  /// Operators that the validator refuses, one sentence each.
  Result<std::vector<std::string>> refused(const qnn::GraphSpec& spec) const {
    HTPIPE_TRY(const std::vector<qnn::OpVerdict> verdicts, vendor_.validate(spec, request_.soc_model));
    std::vector<std::string> lines;
    for (const qnn::OpVerdict& verdict : verdicts) {
      if (verdict.kind == qnn::OpVerdict::Kind::kSupported) continue;
      lines.push_back(fmt::format("{} {}: {}", verdict.type, verdict.op, verdict.reason));
    }
    return lines;
  }

 private:
  const Request& request_;
  qnn::Vendor vendor_;
};

/// Steps between two tensors; bools count as one step.
accuracy::StepAgreement agreement(const Tensor& ours, const Tensor& theirs) {
  accuracy::StepAgreement steps;
  if (ours.dtype() != DType::kBool) {
    steps.add(ours, theirs.with_type(ours.type()));
    return steps;
  }
  const auto as_codes = [](const Tensor& tensor) {
    return tensor.with_type({DType::kU8, tensor.shape(), std::nullopt});
  };
  steps.add(as_codes(ours), as_codes(theirs));
  return steps;
}

Json to_json(const accuracy::StepAgreement& steps) {
  return {{"compared", steps.compared}, {"equal", steps.equal}, {"max_steps", steps.max_steps}};
}

Tensor sample_of(const Tensor& stacked, const TensorType& type, std::int64_t index) {
  return Tensor(type, nullptr, stacked.bytes().data() + static_cast<std::size_t>(index) * type.size_bytes());
}

/// One computed value, over all samples.
struct Layer {
  const Node* node;
  const Value* value;
  std::optional<accuracy::StepAgreement> chained;
  std::optional<accuracy::StepAgreement> local;
  accuracy::Comparison cosine;  ///< the emulator's reals against float32's
};

/// The arrays in0, in1 …, ours0 …, theirs0 … of one node, and the scales of its operands.
Status write_dump(const Node& node, const std::vector<const void*>& operands, const std::vector<Tensor>& results,
                  const Outputs& theirs, std::int64_t sample, const fs::path& path) {
  std::vector<NamedTensor> arrays;
  const auto plain = [](TensorType type) {
    type.encoding.reset();
    return type;
  };
  const auto add_scales = [&arrays](const std::string& name, const TensorType& type) {
    if (!type.encoding) return;
    const auto count = static_cast<std::int64_t>(type.encoding->scales.size());
    arrays.push_back(
        {name + "_scales", Tensor::from<float>({DType::kF32, {count}, std::nullopt}, type.encoding->scales)});
    arrays.push_back({name + "_zeros",
                      Tensor::from<std::int32_t>({DType::kI32, {count}, std::nullopt}, type.encoding->zero_points)});
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == nullptr) continue;
    const TensorType& type = node.operands[i]->type;
    const std::string name = fmt::format("in{}", i);
    arrays.push_back({name, Tensor(plain(type), nullptr, static_cast<const std::byte*>(operands[i]))});
    add_scales(name, type);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    const TensorType& type = node.results[i]->type;
    arrays.push_back({fmt::format("ours{}", i), results[i].with_type(plain(type))});
    arrays.push_back({fmt::format("theirs{}", i), sample_of(theirs.at(node.results[i]->name), plain(type), sample)});
    add_scales(fmt::format("out{}", i), type);
  }
  return write_npz(path, arrays);
}

/// A kernel alone on the emulator's operands.
Status run_alone(const Node& node, const Kernel& kernel, const Outputs& theirs, const std::vector<Tensor>& inputs,
                 const Graph& graph, std::int64_t sample, std::map<const Value*, Layer*>& layers,
                 const fs::path& dump) {
  std::vector<const void*> operands;
  for (const Value* operand : node.operands) {
    if (operand == nullptr) {
      operands.push_back(nullptr);
    } else if (operand->is_constant()) {
      operands.push_back(operand->constant.bytes().data());
    } else if (operand->producer == nullptr) {
      const auto at = std::find(graph.inputs().begin(), graph.inputs().end(), operand) - graph.inputs().begin();
      operands.push_back(inputs[static_cast<std::size_t>(at)].bytes().data());
    } else {
      operands.push_back(sample_of(theirs.at(operand->name), operand->type, sample).bytes().data());
    }
  }
  std::vector<Tensor> results;
  std::vector<void*> targets;
  for (const Value* result : node.results) results.emplace_back(result->type);
  for (Tensor& tensor : results) targets.push_back(tensor.mutable_data<std::byte>().data());
  CallMemory memory(kernel, 1);
  kernel.run({operands, targets, memory.scratch(), memory.lanes()});
  if (!dump.empty()) HTPIPE_CHECK_OK(write_dump(node, operands, results, theirs, sample, dump));
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Value* value = node.results[i];
    auto& local = layers.at(value)->local;
    if (!local) local.emplace();
    local->merge(agreement(results[i], sample_of(theirs.at(value->name), value->type, sample)));
  }
  return {};
}

class Report {
 public:
  explicit Report(const Request& request) : request_(request) {}

  Status make() {
    const auto begin = std::chrono::steady_clock::now();
    const auto lap = [this, begin](const char* stage) {
      json_["seconds"][stage] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    ImportOptions options;
    options.dims.insert(request_.dims.begin(), request_.dims.end());
    HTPIPE_TRY(ImportedModel model, import_model(request_.model, options));
    HTPIPE_CHECK_OK(run_passes(model.graph));
    if (!request_.text.empty()) {  // what is left when the rest fails
      HTPIPE_CHECK_OK(write_file_atomic(request_.text, print(model.graph)));
    }
    lap("passes");
    HTPIPE_TRY(const std::vector<NamedTensor> arrays, read_npz(request_.samples));
    HTPIPE_TRY(const SampleSource calibration, source_of(model.graph, arrays, 0, request_.calibrate));
    HTPIPE_TRY(const quant::Statistics statistics, quant::calibrate(model.graph, calibration));
    const int bits = request_.precision == Precision::kInt16 ? 16 : 8;
    const quant::Ranges ranges = quant::choose_ranges(statistics, quant::RangeMethod::kMinMax, 100, bits);
    lap("calibrate");
    quant::QuantizeOptions quantise;
    quantise.default_precision = request_.precision;
    quantise.wide_products = request_.htp_version >= 73;
    HTPIPE_TRY(const Graph graph, quant::quantize(model.graph, ranges, quantise));
    if (!request_.text.empty()) HTPIPE_CHECK_OK(write_file_atomic(request_.text, print(graph)));
    json_["nodes"] = graph.nodes().size();
    HTPIPE_TRY(const qnn::GraphSpec spec, lower_to_qnn(graph));
    lap("quantise");
    auto vendor = qnn::Vendor::find();
    if (!vendor) return fail(std::move(vendor.error()));
    const Emulator emulator(request_, std::move(*vendor));
    HTPIPE_TRY(const std::vector<std::string> refused, emulator.refused(spec));
    json_["refused"] = refused;
    lap("validate");
    HTPIPE_TRY(const SampleSource floats, source_of(model.graph, arrays, request_.calibrate, request_.evaluate));
    std::map<std::string, Tensor> inputs;
    const SampleSource stored = stored_inputs(graph, floats);
    for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
      HTPIPE_TRY(inputs[graph.inputs()[i]->name], stack_input(graph, i, stored));
    }
    HTPIPE_TRY(const Outputs outputs, emulator.run(graph, spec, inputs, false));
    lap("emulator");
    Outputs natives;
    if (request_.layers) {
      HTPIPE_TRY(natives, emulator.run(graph, spec, inputs, true));
    }
    lap("emulator, every value");
    HTPIPE_CHECK_OK(compare(model.graph, graph, floats, outputs, natives));
    lap("compare");
    return {};
  }

  [[nodiscard]] const Json& json() const { return json_; }

 private:
  Status compare(const Graph& reference, const Graph& graph, const SampleSource& floats, const Outputs& outputs,
                 const Outputs& natives) {
    std::list<Layer> layers;
    std::map<const Value*, Layer*> index;
    for (const auto& node : graph.nodes()) {
      for (const Value* value : node->results) {
        layers.push_back({node.get(), value, std::nullopt, std::nullopt, {}});
        index[value] = &layers.back();
      }
    }
    // Every operator that our engine refuses, not the first one alone.
    std::map<const Node*, Kernel> kernels;
    Json no_rule = Json::array();
    for (const auto& node : graph.nodes()) {
      auto kernel = make_kernel(*node, request_.htp_version);
      if (kernel) {
        kernels.emplace(node.get(), std::move(*kernel));
      } else {
        no_rule.push_back(fmt::format("{} {}: {}", node->op->name, node->name(), kernel.error().message));
      }
    }
    const bool whole = no_rule.empty();
    json_["no_rule"] = std::move(no_rule);
    const SampleSource stored = stored_inputs(graph, floats);
    HTPIPE_TRY(const Program float_program, Program::make(reference, 0));
    Program::Workspace float_workspace(float_program);
    std::optional<Program> program;
    std::optional<Program::Workspace> workspace;
    if (whole) {
      HTPIPE_TRY(program, Program::make(graph, request_.htp_version));
      workspace.emplace(*program);
    }
    Judge judge(graph, outputs);
    for (std::int64_t sample = 0; sample < floats.count; ++sample) {
      std::map<std::string, std::vector<float>> truth;
      HTPIPE_TRY(const std::vector<Tensor> float_inputs, floats.get(sample));
      HTPIPE_CHECK_OK(float_program.run(float_workspace, float_inputs, [&](const Value& value, const Tensor& tensor) {
        if (tensor.dtype() == DType::kF32) truth[value.name] = to_floats(tensor);
      }));
      HTPIPE_TRY(const std::vector<Tensor> inputs, stored.get(sample));
      if (whole) {
        HTPIPE_TRY(const std::vector<Tensor> ours,
                   program->run(*workspace, inputs, [&](const Value& value, const Tensor& tensor) {
                     const auto at = natives.find(value.name);
                     if (at == natives.end() || value.producer == nullptr) return;
                     auto& chained = index.at(&value)->chained;
                     if (!chained) chained.emplace();
                     chained->merge(agreement(tensor, sample_of(at->second, value.type, sample)));
                   }));
        judge.add(ours, truth, sample);
      }
      if (natives.empty()) continue;
      for (const auto& [node, kernel] : kernels) {
        const fs::path dump = node->name() == request_.dump ? request_.answer.string() + ".npz" : "";
        HTPIPE_CHECK_OK(run_alone(*node, kernel, natives, inputs, graph, sample, index, dump));
      }
      for (Layer& layer : layers) {
        const auto at = truth.find(layer.value->name);
        const auto theirs = natives.find(layer.value->name);
        if (at == truth.end() || theirs == natives.end()) continue;
        layer.cosine.add(at->second, to_floats(sample_of(theirs->second, layer.value->type, sample)));
      }
    }
    json_["outputs"] = judge.json();
    json_["exposed_equal"] = exposed_equal(outputs, natives);
    json_["layers"] = Json::array();
    if (natives.empty()) return {};
    for (const Layer& layer : layers) {
      Json row = {{"value", layer.value->name},
                  {"op", layer.node->op->name},
                  {"layer", layer.node->layer()},
                  {"type", std::string(name_of(layer.value->type.dtype)) + to_string(layer.value->type.shape)},
                  {"cosine", layer.cosine.count() == 0 ? Json(nullptr) : Json(layer.cosine.cosine())}};
      row["chained"] = layer.chained ? to_json(*layer.chained) : Json(nullptr);
      row["local"] = layer.local ? to_json(*layer.local) : Json(nullptr);
      json_["layers"].push_back(std::move(row));
    }
    return {};
  }

  /// The outputs of the normal graph: ours, the emulator's and float32's.
  class Judge {
   public:
    Judge(const Graph& graph, const Outputs& outputs)
        : graph_(graph), outputs_(outputs), rows_(graph.outputs().size()) {}

    void add(const std::vector<Tensor>& ours, const std::map<std::string, std::vector<float>>& truth,
             std::int64_t sample) {
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        const Value* output = graph_.outputs()[i];
        const Tensor theirs = sample_of(outputs_.at(output->name), output->type, sample);
        Row& row = rows_[i];
        row.steps.merge(agreement(ours[i], theirs));
        const std::vector<float> a = to_floats(ours[i]);
        const std::vector<float> b = to_floats(theirs);
        row.cosine.add(b, a);
        add_best(row, a, b, output->type.shape);
        const auto at = truth.find(output->name);
        if (at != truth.end()) row.quality.add(at->second, b);
      }
    }

    [[nodiscard]] Json json() const {
      Json all = Json::array();
      for (std::size_t i = 0; i < rows_.size(); ++i) {
        Json row = to_json(rows_[i].steps);
        row["name"] = graph_.outputs()[i]->name;
        row["cosine"] = rows_[i].cosine.cosine();
        row["cosine_to_float"] = rows_[i].quality.cosine();
        row["top1"] = rows_[i].best;
        row["top1_same"] = rows_[i].same;
        all.push_back(std::move(row));
      }
      return all;
    }

   private:
    struct Row {
      accuracy::StepAgreement steps;
      accuracy::Comparison cosine;   ///< ours against the emulator's
      accuracy::Comparison quality;  ///< the emulator's against float32's
      std::int64_t best = 0;
      std::int64_t same = 0;
    };

    /// The largest element of every row of the last axis.
    static void add_best(Row& row, const std::vector<float>& a, const std::vector<float>& b, const Shape& shape) {
      const auto width = static_cast<std::size_t>(shape.empty() ? 1 : shape.back());
      for (std::size_t at = 0; at + width <= a.size(); at += width) {
        ++row.best;
        const std::span<const float> ours(a.data() + at, width);
        const std::span<const float> theirs(b.data() + at, width);
        if (accuracy::argmax(ours) == accuracy::argmax(theirs)) ++row.same;
      }
    }

    const Graph& graph_;
    const Outputs& outputs_;
    std::vector<Row> rows_;
  };

  /// Whether the graph whose values are all exposed gives the outputs of the normal one.
  static Json exposed_equal(const Outputs& outputs, const Outputs& natives) {
    if (natives.empty()) return nullptr;
    return std::all_of(outputs.begin(), outputs.end(), [&](const auto& output) {
      const Bytes a = output.second.bytes();
      const Bytes b = natives.at(output.first).bytes();
      return std::equal(a.begin(), a.end(), b.begin(), b.end());
    });
  }

  const Request& request_;
  Json json_;
};

int run(const fs::path& path) {
  register_all_ops();
  const auto request = read_request(path);
  Error error(Code::kBug, "");
  if (request) {
    Report report(*request);
    Status status = report.make();
    Json json = report.json();
    if (!status) {
      json["error"] = status.error().summary();
      json["notes"] = status.error().notes;
    }
    const Status written = write_file_atomic(request->answer, json.dump(1));
    if (written) return 0;
    error = written.error();
  } else {
    error = request.error();
  }
  fmt::print(stderr, "{}\n", error.summary());
  return 1;
}

}  // namespace
}  // namespace htpipe::fidelity

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: network_fidelity REQUEST.json\n");
    return 2;
  }
  return htpipe::fidelity::run(argv[1]);
}
