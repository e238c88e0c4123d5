// The recording backend, and the one that stands between QnnSystem and HTP.
#include "qnn/dlc_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "base/check.h"
#include "qnn/tensor_abi.h"
#include "qnn/vendor_codes.h"
#include "qnn/vendor_log.h"

namespace htpipe::qnn {
namespace {

constexpr std::uint32_t kGraphInfoVersion = 3;
constexpr abi::ErrorCode kRefuse = 1004;

/// What the calls of one compose_graphs leave behind. The interface has no user pointer, so it is reached through
/// `active`; a worker does one job on one thread.
struct Recording {
  DlcGraphs out;
  std::optional<Error> error;
  std::uint32_t next_id = 1;
};

struct Exposure {
  const abi::BackendTable* real = nullptr;
  std::set<std::string> natives;
};

Recording* active_recording = nullptr;
Exposure* active_exposure = nullptr;

abi::ErrorCode refuse(std::optional<Error>& slot, Error error) {
  if (!slot) slot = std::move(error);
  return kRefuse;
}

// ---- recording ------------------------------------------------------------------------------------------------------

abi::Handle handle_of(std::size_t index) { return reinterpret_cast<abi::Handle>(index + 1); }

GraphSpec* graph_of(abi::Handle handle) {
  const auto index = reinterpret_cast<std::size_t>(handle);
  auto& graphs = active_recording->out.graphs;
  return index >= 1 && index <= graphs.size() ? &graphs[index - 1] : nullptr;
}

abi::ErrorCode record_graph(abi::Handle, const char* name, const abi::Config**, abi::Handle* graph) {
  active_recording->out.graphs.push_back({name == nullptr ? "" : name, {}, {}});
  *graph = handle_of(active_recording->out.graphs.size() - 1);
  return abi::kSuccess;
}

abi::ErrorCode record_tensor(abi::Handle handle, abi::Tensor* tensor) {
  GraphSpec* graph = graph_of(handle);
  if (graph == nullptr || tensor == nullptr) return kRefuse;
  auto spec = tensor_from(*tensor, active_recording->out.notes);
  if (!spec) return refuse(active_recording->error, std::move(spec.error()));
  tensor->body.id = active_recording->next_id++;
  graph->tensors.push_back(std::move(*spec));
  return abi::kSuccess;
}

std::vector<std::string> names_of(const abi::Tensor* tensors, std::uint32_t count) {
  std::vector<std::string> names;
  for (std::uint32_t i = 0; i < count; ++i) {
    const abi::TensorBody& body = tensors[i].body;
    names.emplace_back(body.name == nullptr || body.kind == abi::kNull ? "" : body.name);
  }
  return names;
}

abi::ErrorCode record_node(abi::Handle handle, abi::OpConfig op) {
  GraphSpec* graph = graph_of(handle);
  if (graph == nullptr) return kRefuse;
  OpSpec spec;
  spec.name = op.name == nullptr ? "" : op.name;
  spec.type = op.type == nullptr ? "" : op.type;
  for (std::uint32_t i = 0; i < op.param_count; ++i) {
    const abi::Param& param = op.params[i];
    const std::string name = param.name == nullptr ? "" : param.name;
    if (param.kind == abi::kTensorParam) {
      auto tensor = tensor_from(param.tensor, active_recording->out.notes);
      if (!tensor) return refuse(active_recording->error, std::move(tensor.error()));
      spec.params.push_back({name, tensor->data});
      // The tensor was also created in the graph; a GraphSpec holds it in the parameter only.
      const auto same = [&tensor](const TensorSpec& other) { return other.name == tensor->name; };
      graph->tensors.erase(std::remove_if(graph->tensors.begin(), graph->tensors.end(), same), graph->tensors.end());
    } else {
      auto scalar = scalar_from(name, param.scalar);
      if (!scalar) return refuse(active_recording->error, std::move(scalar.error()));
      spec.params.push_back(std::move(*scalar));
    }
  }
  spec.inputs = names_of(op.inputs, op.input_count);
  spec.outputs = names_of(op.outputs, op.output_count);
  graph->ops.push_back(std::move(spec));
  return abi::kSuccess;
}

abi::ErrorCode accept_op(abi::Handle, abi::OpConfig) { return abi::kSuccess; }

// ---- exposing -------------------------------------------------------------------------------------------------------

abi::ErrorCode expose_tensor(abi::Handle graph, abi::Tensor* tensor) {
  const bool native = tensor->body.kind == abi::kNative;
  if (native) tensor->body.kind = abi::kAppRead;
  if (native && tensor->body.name != nullptr) active_exposure->natives.insert(tensor->body.name);
  return active_exposure->real->tensor_create_graph_tensor(graph, tensor);
}

/// Copies of the operands with the changed kind.
std::vector<abi::Tensor> exposed(const abi::Tensor* tensors, std::uint32_t count) {
  std::vector<abi::Tensor> copies(tensors, tensors + count);
  for (abi::Tensor& tensor : copies) {
    if (tensor.body.kind == abi::kNative) tensor.body.kind = abi::kAppRead;
  }
  return copies;
}

template <typename Call>
abi::ErrorCode with_exposed(abi::OpConfig op, Call call) {
  auto inputs = exposed(op.inputs, op.input_count);
  auto outputs = exposed(op.outputs, op.output_count);
  op.inputs = inputs.data();
  op.outputs = outputs.data();
  return call(op);
}

abi::ErrorCode expose_node(abi::Handle graph, abi::OpConfig op) {
  return with_exposed(
      op, [graph](const abi::OpConfig& copy) { return active_exposure->real->graph_add_node(graph, copy); });
}

abi::ErrorCode expose_validation(abi::Handle backend, abi::OpConfig op) {
  return with_exposed(op, [backend](const abi::OpConfig& copy) {
    return active_exposure->real->backend_validate_op_config(backend, copy);
  });
}

// ---- opening --------------------------------------------------------------------------------------------------------

Error dlc_error(const std::filesystem::path& path, std::string_view call, abi::ErrorCode code) {
  Error error = vendor_error(call, code);
  return Error(Code::kDlcInvalid, std::move(error.message)).in_file(path.string());
}

struct DlcCloser {
  const System* system;
  void operator()(void* dlc) const { system->api().dlc_free(dlc); }
};
using DlcHandle = std::unique_ptr<void, DlcCloser>;

Result<DlcHandle> open_dlc(const System& system, const std::filesystem::path& path) {
  vendor_log::begin_call();
  abi::Handle log = nullptr;
  system.api().log_create(vendor_log::callback, abi::kLogWarning, &log);
  abi::Handle dlc = nullptr;
  const auto code = system.api().dlc_create_from_file(log, path.c_str(), &dlc);
  if (code != abi::kSuccess || dlc == nullptr) return fail(dlc_error(path, "systemDlcCreateFromFile", code));
  return DlcHandle(dlc, DlcCloser{&system});
}

}  // namespace

Result<DlcGraphs> read_dlc(const System& system, const Backend& base, const std::filesystem::path& path) {
  HTPIPE_TRY(const DlcHandle dlc, open_dlc(system, path));
  abi::BackendInterface recorder = *base.interface;
  recorder.table.graph_create = record_graph;
  recorder.table.tensor_create_graph_tensor = record_tensor;
  recorder.table.graph_add_node = record_node;
  recorder.table.backend_validate_op_config = accept_op;
  Recording recording;
  active_recording = &recording;
  abi::GraphInfo* infos = nullptr;
  std::uint32_t count = 0;
  const auto code = system.api().dlc_compose_graphs(dlc.get(), nullptr, 0, handle_of(0), handle_of(0), recorder,
                                                    kGraphInfoVersion, &infos, &count);
  active_recording = nullptr;
  if (recording.error) {
    return fail(Error(Code::kDlcInvalid, recording.error->message).in_file(path.string()));
  }
  if (code != abi::kSuccess) return fail(dlc_error(path, "systemDlcComposeGraphs", code));
  return std::move(recording.out);
}

Result<GraphHandle> compose_dlc(const System& system, const Backend& backend, abi::Handle backend_handle,
                                abi::Handle context, const std::filesystem::path& path, const std::string& name,
                                const abi::Config** configs, std::uint32_t config_count, bool expose_natives,
                                Steps& steps) {
  // Options go with a graph's name, which only reading the file tells.
  steps.begin("read", path.filename().string());
  HTPIPE_TRY(const DlcGraphs contents, read_dlc(system, backend, path));
  if (contents.graphs.empty()) return fail(Error(Code::kDlcInvalid, "holds no graph").in_file(path.string()));
  const std::string wanted = name.empty() ? contents.graphs.front().name : name;
  HTPIPE_TRY(const DlcHandle dlc, open_dlc(system, path));
  std::vector<abi::DlcGraphConfig> graph_configs;
  for (const GraphSpec& graph : contents.graphs)
    graph_configs.push_back({1, graph.name.c_str(), configs, config_count});
  std::vector<const abi::DlcGraphConfig*> pointers;
  for (const abi::DlcGraphConfig& config : graph_configs) pointers.push_back(&config);

  abi::BackendInterface interface = *backend.interface;
  Exposure exposure;
  exposure.real = &backend.api();
  if (expose_natives) {
    interface.table.tensor_create_graph_tensor = expose_tensor;
    interface.table.graph_add_node = expose_node;
    interface.table.backend_validate_op_config = expose_validation;
  }
  active_exposure = &exposure;
  abi::GraphInfo* infos = nullptr;
  std::uint32_t count = 0;
  steps.begin("compose", wanted);
  vendor_log::begin_call();
  const auto code =
      system.api().dlc_compose_graphs(dlc.get(), pointers.data(), static_cast<std::uint32_t>(pointers.size()),
                                      backend_handle, context, interface, kGraphInfoVersion, &infos, &count);
  active_exposure = nullptr;
  if (code != abi::kSuccess) return fail(vendor_error("systemDlcComposeGraphs", code).in_file(path.string()));
  for (std::uint32_t i = 0; i < count; ++i) {
    if (infos[i].name == nullptr || wanted != infos[i].name) continue;
    GraphHandle out;
    vendor_log::begin_call();
    if (const auto retrieved = backend.api().graph_retrieve(context, wanted.c_str(), &out.graph);
        retrieved != abi::kSuccess) {
      return fail(vendor_error("graphRetrieve", retrieved).in_file(path.string()));
    }
    HTPIPE_TRY(out.inputs, ports_from(infos[i].inputs, infos[i].input_count));
    HTPIPE_TRY(out.outputs, ports_from(infos[i].outputs, infos[i].output_count));
    // The reader lists exposed tensors among the outputs, without telling them apart.
    for (GraphPort& port : out.outputs) {
      if (exposure.natives.count(port.spec.name) != 0) port.spec.role = TensorRole::kNative;
    }
    return out;
  }
  return fail(Error(Code::kUsage, fmt::format("the DLC has no graph named {}", wanted)).in_file(path.string()));
}

}  // namespace htpipe::qnn
