// GraphSpec to tensorCreateGraphTensor and graphAddNode.
#include "qnn/composer.h"

#include <fmt/core.h>

#include "base/check.h"
#include "qnn/safe_names.h"
#include "qnn/vendor_codes.h"
#include "qnn/vendor_log.h"

namespace htpipe::qnn {
namespace {

abi::TensorKind kind_in(const TensorSpec& tensor, const ComposeOptions& options) {
  if (tensor.role == TensorRole::kNative && options.expose_natives) return abi::kAppRead;
  return kind_of(tensor.role);
}

GraphPort port_of(const TensorSpec& spec, const AbiTensor& tensor) {
  return {TensorSpec{spec.name, spec.role, spec.type, {}}, tensor.value.body.id};
}

}  // namespace

Error vendor_error(std::string_view call, abi::ErrorCode code) {
  const std::string reason = vendor_log::first_error();
  return Error(Code::kVendorError,
               fmt::format("{} returned {}{}", call, describe_vendor_code(static_cast<std::int64_t>(code)),
                           reason.empty() ? "" : ": " + reason))
      .with_hint(fmt::format("htpipe explain {}", code));
}

Result<std::vector<GraphPort>> ports_from(const abi::Tensor* tensors, std::uint32_t count) {
  std::vector<GraphPort> ports;
  std::vector<std::string> notes;
  for (std::uint32_t i = 0; i < count; ++i) {
    HTPIPE_TRY(TensorSpec spec, tensor_from(tensors[i], notes));
    if (!notes.empty()) return fail(Error(Code::kUnsupportedForm, notes.front()));
    ports.push_back({std::move(spec), tensors[i].body.id});
  }
  return ports;
}

AbiOp::AbiOp(const OpSpec& op, const std::map<std::string, const AbiTensor*>& operands) {
  params_.reserve(op.params.size());
  for (const ParamSpec& param : op.params) add(op, param);
  const auto take = [&operands](const std::vector<std::string>& names, std::vector<abi::Tensor>& out) {
    for (const std::string& name : names) {
      const auto at = operands.find(name);
      HTPIPE_CHECK(at != operands.end(), "operand " + name + " was not created");
      out.push_back(at->second->value);
    }
  };
  take(op.inputs, inputs_);
  take(op.outputs, outputs_);
  config_.version = 1;
  config_.name = op.name.c_str();
  config_.package = abi::kOpPackage;
  config_.type = op.type.c_str();
  config_.param_count = static_cast<std::uint32_t>(params_.size());
  config_.params = params_.data();
  config_.input_count = static_cast<std::uint32_t>(inputs_.size());
  config_.inputs = inputs_.data();
  config_.output_count = static_cast<std::uint32_t>(outputs_.size());
  config_.outputs = outputs_.data();
}

void AbiOp::add(const OpSpec& op, const ParamSpec& param) {
  abi::Param out{};
  out.kind = abi::kScalarParam;
  out.name = param.name.c_str();
  if (const auto* tensor = std::get_if<Tensor>(&param.value)) {
    param_specs_.push_back({param_tensor_name(op, param), TensorRole::kStatic, tensor->type(), *tensor});
    param_storage_.emplace_back(param_specs_.back(), abi::kStatic);
    out.kind = abi::kTensorParam;
    out.tensor = param_storage_.back().value;
  } else if (const auto* flag = std::get_if<bool>(&param.value)) {
    out.scalar.data_type = abi::kBool8;
    out.scalar.u8 = *flag ? 1 : 0;
  } else if (const auto* natural = std::get_if<std::uint32_t>(&param.value)) {
    out.scalar.data_type = abi::kUint32;
    out.scalar.u32 = *natural;
  } else if (const auto* integer = std::get_if<std::int32_t>(&param.value)) {
    out.scalar.data_type = abi::kInt32;
    out.scalar.i32 = *integer;
  } else if (const auto* real = std::get_if<float>(&param.value)) {
    out.scalar.data_type = abi::kFloat32;
    out.scalar.f32 = *real;
  } else {
    out.scalar.data_type = abi::kString;
    out.scalar.text = std::get<std::string>(param.value).c_str();
  }
  params_.push_back(out);
}

std::vector<abi::Tensor*> AbiOp::param_tensors() {
  std::vector<abi::Tensor*> tensors;
  for (abi::Param& param : params_) {
    if (param.kind == abi::kTensorParam) tensors.push_back(&param.tensor);
  }
  return tensors;
}

Result<GraphHandle> compose(const abi::BackendTable& api, abi::Handle backend, abi::Handle context,
                            const GraphSpec& spec, const abi::Config** configs, const ComposeOptions& options,
                            Steps& steps) {
  GraphHandle out;
  steps.begin("create", spec.name);
  vendor_log::begin_call();
  if (const auto code = api.graph_create(context, spec.name.c_str(), configs, &out.graph); code != abi::kSuccess) {
    return fail(vendor_error("graphCreate", code));
  }
  out.tensors = std::make_shared<std::deque<AbiTensor>>();
  std::map<std::string, const AbiTensor*> operands;
  for (const TensorSpec& tensor : spec.tensors) {
    const abi::TensorKind kind = kind_in(tensor, options);
    AbiTensor& created = out.tensors->emplace_back(tensor, kind);
    steps.begin("tensor", tensor.name);
    vendor_log::begin_call();
    if (const auto code = api.tensor_create_graph_tensor(out.graph, &created.value); code != abi::kSuccess) {
      return fail(vendor_error("tensorCreateGraphTensor", code).at_node(tensor.name));
    }
    operands[tensor.name] = &created;
    if (kind == abi::kAppWrite) out.inputs.push_back(port_of(tensor, created));
    if (kind == abi::kAppRead) out.outputs.push_back(port_of(tensor, created));
  }
  for (const OpSpec& op : spec.ops) {
    AbiOp node(op, operands);
    if (options.validate) {
      steps.begin("validate", op.name);
      vendor_log::begin_call();
      if (const auto code = api.backend_validate_op_config(backend, node.config()); code != abi::kSuccess) {
        return fail(vendor_error(fmt::format("backendValidateOpConfig for {}", op.type), code).at_node(op.name));
      }
    }
    steps.begin("add", op.name);
    vendor_log::begin_call();
    for (abi::Tensor* tensor : node.param_tensors()) {
      if (const auto code = api.tensor_create_graph_tensor(out.graph, tensor); code != abi::kSuccess) {
        return fail(vendor_error("tensorCreateGraphTensor", code).at_node(op.name));
      }
    }
    if (const auto code = api.graph_add_node(out.graph, node.config()); code != abi::kSuccess) {
      return fail(vendor_error(fmt::format("graphAddNode for {}", op.type), code).at_node(op.name));
    }
  }
  return out;
}

abi::ErrorCode validate_op(const abi::BackendTable& api, abi::Handle backend, const GraphSpec& spec, const OpSpec& op) {
  std::deque<AbiTensor> tensors;
  std::map<std::string, const AbiTensor*> operands;
  const auto add = [&](const std::string& name) {
    if (operands.count(name) != 0) return;
    const TensorSpec* tensor = spec.find(name);
    HTPIPE_CHECK(tensor != nullptr, "operand " + name + " is no tensor of the graph");
    operands[name] = &tensors.emplace_back(*tensor, kind_of(tensor->role));
  };
  for (const std::string& name : op.inputs) add(name);
  for (const std::string& name : op.outputs) add(name);
  const AbiOp node(op, operands);
  vendor_log::begin_call();
  return api.backend_validate_op_config(backend, node.config());
}

}  // namespace htpipe::qnn
