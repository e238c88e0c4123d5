// systemContextGetMetaData as a ContextInfo.
#include "qnn/context_reader.h"

#include <fmt/core.h>

#include <cstring>
#include <memory>

#include "qnn/vendor_codes.h"
#include "qnn/vendor_log.h"

namespace htpipe::qnn {
namespace {

constexpr std::uint32_t kBinaryInfoVersion = 3;
constexpr std::uint32_t kGraphInfoVersion = 3;
constexpr std::uint32_t kBlobVersion1 = 1;
constexpr std::uint32_t kBlobVersion2 = 2;

struct Metadata {
  std::uint32_t version;
  std::uint32_t dsp_arch;
};

std::vector<GraphTensorInfo> infos_of(const std::vector<GraphPort>& ports) {
  std::vector<GraphTensorInfo> infos;
  for (const GraphPort& port : ports) infos.push_back({port.spec.name, port.spec.type});
  return infos;
}

void read_blob(const abi::GraphInfo& from, ContextGraphInfo& graph) {
  if (from.blob_info == nullptr || from.blob_info_size < sizeof(abi::GraphBlobInfo)) return;
  abi::GraphBlobInfo blob{};
  std::memcpy(&blob, from.blob_info, sizeof blob);
  if (blob.version_1 == kBlobVersion1) {
    graph.spill_fill_bytes = blob.spill_fill;
    graph.vtcm_bytes = blob.vtcm;
    graph.optimization_level = blob.optimization_level;
    graph.dlbc = blob.dlbc != 0;
    graph.hvx_threads = blob.hvx_threads;
  }
  if (blob.version_2 == kBlobVersion2) {
    graph.io_bytes = blob.io;
    graph.op_data_bytes = blob.op_data;
    graph.const_bytes = blob.constants;
    graph.ddr_tensor_bytes = blob.ddr_tensors;
    graph.shared_weights_bytes = blob.shared_weights;
  }
}

}  // namespace

Result<ContextContents> read_context(const System& system, Bytes binary) {
  abi::Handle handle = nullptr;
  vendor_log::begin_call();
  if (const auto code = system.api().context_create(&handle); code != abi::kSuccess) {
    return fail(vendor_error("systemContextCreate", code));
  }
  const auto closer = [&system](void* context) { system.api().context_free(context); };
  const std::unique_ptr<void, decltype(closer)> owner(handle, closer);
  const abi::BinaryInfo* info = nullptr;
  const auto code = system.api().context_get_metadata(handle, binary.data(), binary.size(), &info);
  if (code != abi::kSuccess || info == nullptr) {
    Error error = vendor_error("systemContextGetMetaData", code);
    return fail(Code::kContextInvalid, std::move(error.message));
  }
  if (info->version != kBinaryInfoVersion) {
    return fail(Code::kContextInvalid,
                fmt::format("its description has the version {}, not {}: another release wrote it", info->version,
                            kBinaryInfoVersion));
  }
  ContextContents out;
  out.info.soc_model = info->soc_model;
  if (info->metadata != nullptr && info->metadata_size >= sizeof(Metadata)) {
    Metadata metadata{};
    std::memcpy(&metadata, info->metadata, sizeof metadata);
    if (metadata.version == 1) out.info.dsp_arch = metadata.dsp_arch;
  }
  out.info.build_id = info->build_id == nullptr ? "" : info->build_id;
  out.info.core_api = version_text(info->core_api);
  out.info.backend_api = version_text(info->backend_api);
  out.info.blob_version = version_text(info->blob_version);
  out.info.blob_bytes = info->blob_size;
  out.info.file_bytes = binary.size();
  for (std::uint32_t i = 0; i < info->graph_count; ++i) {
    const abi::GraphInfo& from = info->graphs[i];
    GraphHandle ports;
    HTPIPE_TRY(ports.inputs, ports_from(from.inputs, from.input_count));
    HTPIPE_TRY(ports.outputs, ports_from(from.outputs, from.output_count));
    ContextGraphInfo graph;
    graph.name = from.name == nullptr ? "" : from.name;
    graph.inputs = infos_of(ports.inputs);
    graph.outputs = infos_of(ports.outputs);
    if (from.version == kGraphInfoVersion) read_blob(from, graph);
    out.graphs.push_back(std::move(ports));
    out.info.graphs.push_back(std::move(graph));
  }
  return out;
}

}  // namespace htpipe::qnn
