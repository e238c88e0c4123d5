#include "pipeline/compare.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "exec/program.h"
#include "export/qnn_raising.h"
#include "pipeline/execute.h"

namespace htpipe {
namespace {

/// Types whose stored values are counted in steps: all that the chip stores, not float32 and what stands for itself.
bool has_steps(DType dtype) {
  constexpr DType kTypes[] = {DType::kU8, DType::kI8, DType::kU16, DType::kI16, DType::kI32, DType::kF16};
  return std::find(std::begin(kTypes), std::end(kTypes), dtype) != std::end(kTypes);
}

/// Takes the emulator's values of one sample, and compares them with ours when the sample is complete.
class Comparer : public ValueSink {
 public:
  Comparer(const Program& program, const SampleSource& inputs, EngineAgreement& agreement)
      : program_(program),
        workspace_(program, thread_count()),
        inputs_(inputs),
        agreement_(agreement),
        theirs_(agreement.values.size()) {
    for (std::size_t i = 0; i < agreement.values.size(); ++i) index_[agreement.values[i].value] = i;
  }

  Status add(std::size_t port, const Tensor& value) override {
    // Only a view is given; it is needed until the sample is complete.
    theirs_[port] = Tensor::from<std::byte>(value.type(), value.bytes());
    return {};
  }

  Status end_sample() override {
    HTPIPE_TRY(const std::vector<Tensor> inputs, inputs_.get(agreement_.samples++));
    HTPIPE_CHECK_OK(program_.run(workspace_, inputs, [this](const Value& value, const Tensor& ours) {
      const auto at = index_.find(value.name);
      if (at == index_.end()) return;
      ValueAgreement& item = agreement_.values[at->second];
      const Tensor& theirs = theirs_[at->second];
      if (has_steps(ours.dtype())) item.steps.add(ours, theirs);
      item.reals.add(to_floats(theirs), to_floats(ours));
    }));
    return {};
  }
  Status finish() override { return {}; }

 private:
  const Program& program_;
  Program::Workspace workspace_;
  const SampleSource& inputs_;
  EngineAgreement& agreement_;
  std::vector<Tensor> theirs_;
  std::map<std::string, std::size_t> index_;
};

}  // namespace

accuracy::StepAgreement EngineAgreement::total() const {
  accuracy::StepAgreement sum;
  for (const ValueAgreement& value : values) sum.merge(value.steps);
  return sum;
}

Result<EngineAgreement> compare_engines(const qnn::Vendor& vendor, const qnn::GraphSpec& spec, const Target& target,
                                        const SampleSource& inputs) {
  HTPIPE_TRY(const Graph graph, raise_from_qnn(spec));
  HTPIPE_TRY(const Program program, Program::make(graph, target.htp_version));
  EngineAgreement agreement;
  for (const auto& node : graph.nodes()) {
    for (const Value* result : node->results) {
      agreement.values.push_back({result->name, std::string(node->op->name), result->type, {}, {}});
    }
  }
  Comparer comparer(program, inputs, agreement);
  std::vector<Wanted> wanted;
  for (std::size_t i = 0; i < agreement.values.size(); ++i) {
    wanted.push_back({{agreement.values[i].value, agreement.values[i].type}, &comparer, i});
  }
  qnn::ExecuteRequest request;
  request.graph = &spec;
  request.device = device_of(target);
  request.expose_natives = true;
  HTPIPE_CHECK_OK(execute_emulator(vendor, std::move(request), ports_of(graph.inputs()), inputs, wanted));
  return agreement;
}

Json to_json(const EngineAgreement& agreement) {
  const auto steps_json = [](const accuracy::StepAgreement& steps) {
    return Json{{"compared", steps.compared},
                {"equal", steps.equal},
                {"within_one_step", steps.within_one},
                {"max_steps", steps.max_steps}};
  };
  Json values = Json::array();
  for (const ValueAgreement& item : agreement.values) {
    Json json = {{"value", item.value}, {"op", item.op}, {"type", to_string(item.type)}};
    json.update(steps_json(item.steps));
    json["cosine"] = item.reals.cosine();
    json["max_error"] = item.reals.max_error();
    values.push_back(std::move(json));
  }
  return {{"samples", agreement.samples}, {"total", steps_json(agreement.total())}, {"values", std::move(values)}};
}

}  // namespace htpipe
