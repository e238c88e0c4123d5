#include "conformance_vendor.h"

#include "export/qnn_lowering.h"

namespace htpipe::conformance {
namespace {

std::string prefix_of(std::size_t job) { return "j" + std::to_string(job) + "_"; }

/// Adds a lowered job, all names behind a prefix.
Status append(const Job& job, std::size_t number, qnn::GraphSpec& all, std::map<std::string, Tensor>& inputs) {
  HTPIPE_TRY(const qnn::GraphSpec spec, lower_to_qnn(*job.graph));
  const std::string prefix = prefix_of(number);
  for (qnn::TensorSpec tensor : spec.tensors) {
    tensor.name = prefix + tensor.name;
    all.tensors.push_back(std::move(tensor));
  }
  for (qnn::OpSpec op : spec.ops) {
    op.name = prefix + op.name;
    for (std::string& name : op.inputs) name = prefix + name;
    for (std::string& name : op.outputs) name = prefix + name;
    all.ops.push_back(std::move(op));
  }
  for (std::size_t i = 0; i < job.inputs.size(); ++i) inputs[prefix + job.graph->inputs()[i]->name] = job.inputs[i];
  return {};
}

Result<std::vector<Answer>> run_together(const qnn::Vendor& vendor, std::uint32_t soc_model,
                                         const std::vector<Job>& jobs) {
  qnn::GraphSpec all;
  all.name = "conformance";
  qnn::ExecuteRequest request;
  request.device.soc_model = soc_model;
  // The validator refuses FP16 for SM7550 and some data types that execute; what counts here is what is computed.
  request.options.validate = false;
  for (std::size_t i = 0; i < jobs.size(); ++i) HTPIPE_CHECK_OK(append(jobs[i], i, all, request.inputs));
  request.graph = &all;
  HTPIPE_TRY(const qnn::ExecuteReport report, vendor.execute(request));
  std::vector<Answer> answers;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    std::map<std::string, Tensor> outputs;
    for (const Value* output : jobs[i].graph->outputs())
      outputs[output->name] = report.outputs.at(prefix_of(i) + output->name);
    answers.emplace_back(std::move(outputs));
  }
  return answers;
}

}  // namespace

std::vector<Answer> run_on_vendor(const qnn::Vendor& vendor, std::uint32_t soc_model, const std::vector<Job>& jobs) {
  if (jobs.empty()) return {};
  auto together = run_together(vendor, soc_model, jobs);
  if (together) return std::move(*together);
  if (jobs.size() == 1) return {Answer(fail(std::move(together.error())))};
  std::vector<Answer> answers;
  for (const Job& job : jobs) answers.push_back(std::move(run_on_vendor(vendor, soc_model, {job}).front()));
  return answers;
}

}  // namespace htpipe::conformance
