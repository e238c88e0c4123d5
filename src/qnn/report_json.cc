// Fields of the reports, written and read side by side.
#include "qnn/report_json.h"

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace htpipe::qnn {
namespace {

constexpr std::array<std::pair<OpVerdict::Kind, const char*>, 3> kVerdicts = {{
    {OpVerdict::Kind::kSupported, "supported"},
    {OpVerdict::Kind::kRefused, "refused"},
    {OpVerdict::Kind::kCrashed, "crashed"},
}};

Json ports_to_json(const std::vector<GraphTensorInfo>& ports) {
  Json json = Json::array();
  for (const GraphTensorInfo& port : ports) json.push_back({{"name", port.name}, {"type", type_to_json(port.type)}});
  return json;
}

std::vector<GraphTensorInfo> ports_from_json(const Json& json) {
  std::vector<GraphTensorInfo> ports;
  for (const Json& port : json) ports.push_back({port.at("name"), type_from_json(port.at("type"))});
  return ports;
}

Json graph_to_json(const ContextGraphInfo& graph) {
  return {{"name", graph.name},
          {"inputs", ports_to_json(graph.inputs)},
          {"outputs", ports_to_json(graph.outputs)},
          {"spill_fill_bytes", graph.spill_fill_bytes},
          {"vtcm_bytes", graph.vtcm_bytes},
          {"optimization_level", graph.optimization_level},
          {"dlbc", graph.dlbc},
          {"hvx_threads", graph.hvx_threads},
          {"io_bytes", graph.io_bytes},
          {"op_data_bytes", graph.op_data_bytes},
          {"const_bytes", graph.const_bytes},
          {"ddr_tensor_bytes", graph.ddr_tensor_bytes},
          {"shared_weights_bytes", graph.shared_weights_bytes}};
}

ContextGraphInfo graph_from_json(const Json& json) {
  ContextGraphInfo graph;
  graph.name = json.at("name");
  graph.inputs = ports_from_json(json.at("inputs"));
  graph.outputs = ports_from_json(json.at("outputs"));
  graph.spill_fill_bytes = json.at("spill_fill_bytes");
  graph.vtcm_bytes = json.at("vtcm_bytes");
  graph.optimization_level = json.at("optimization_level");
  graph.dlbc = json.at("dlbc");
  graph.hvx_threads = json.at("hvx_threads");
  graph.io_bytes = json.at("io_bytes");
  graph.op_data_bytes = json.at("op_data_bytes");
  graph.const_bytes = json.at("const_bytes");
  graph.ddr_tensor_bytes = json.at("ddr_tensor_bytes");
  graph.shared_weights_bytes = json.at("shared_weights_bytes");
  return graph;
}

}  // namespace

Json type_to_json(const TensorType& type) {
  Json json{{"dtype", name_of(type.dtype)}, {"shape", type.shape}};
  if (type.encoding) {
    json["encoding"] = {{"scales", type.encoding->scales},
                        {"zero_points", type.encoding->zero_points},
                        {"axis", type.encoding->axis},
                        {"bits", type.encoding->bits},
                        {"block", type.encoding->block}};
  }
  return json;
}

TensorType type_from_json(const Json& json) {
  TensorType type;
  const auto dtype = parse_dtype(json.at("dtype").get<std::string>());
  if (!dtype) throw Json::other_error::create(501, "unknown data type", nullptr);
  type.dtype = *dtype;
  type.shape = json.at("shape").get<Shape>();
  if (json.contains("encoding")) {
    const Json& from = json.at("encoding");
    type.encoding =
        Encoding{from.at("scales").get<std::vector<float>>(), from.at("zero_points").get<std::vector<std::int32_t>>(),
                 from.at("axis").get<int>(), from.at("bits").get<int>(), from.value("block", std::int64_t{0})};
  }
  return type;
}

Json error_to_json(const Error& error) {
  return {{"code", word(error.code)}, {"message", error.message}, {"file", error.place.file},
          {"node", error.place.node}, {"notes", error.notes},     {"hint", error.hint}};
}

Error error_from_json(const Json& json) {
  const CodeInfo* row = find_code(json.at("code").get<std::string>());
  Error error(row == nullptr ? Code::kVendorError : row->code, json.at("message"));
  error.place.file = json.at("file");
  error.place.node = json.at("node");
  error.notes = json.at("notes").get<std::vector<std::string>>();
  error.hint = json.at("hint");
  return error;
}

Json to_json_value(const std::vector<StageTime>& stages) {
  Json json = Json::array();
  for (const StageTime& stage : stages) json.push_back({{"stage", stage.stage}, {"ms", stage.ms}});
  return json;
}

std::vector<StageTime> stages_from_json(const Json& json) {
  std::vector<StageTime> stages;
  for (const Json& stage : json) stages.push_back({stage.at("stage"), stage.at("ms")});
  return stages;
}

Json to_json_value(const LibraryVersion& version) {
  return {{"library", version.library},   {"provider", version.provider},       {"backend_id", version.backend_id},
          {"core_api", version.core_api}, {"backend_api", version.backend_api}, {"build_id", version.build_id}};
}

LibraryVersion library_from_json(const Json& json) {
  return {json.at("library"),  json.at("provider"),    json.at("backend_id"),
          json.at("core_api"), json.at("backend_api"), json.at("build_id")};
}

Json to_json_value(const OpVerdict& verdict) {
  Json json{{"op", verdict.op}, {"type", verdict.type}};
  for (const auto& [kind, name] : kVerdicts) {
    if (verdict.kind == kind) json["verdict"] = name;
  }
  json["code"] = verdict.code;
  json["reason"] = verdict.reason;
  return json;
}

OpVerdict verdict_from_json(const Json& json) {
  OpVerdict verdict;
  verdict.op = json.at("op");
  verdict.type = json.at("type");
  for (const auto& [kind, name] : kVerdicts) {
    if (json.at("verdict") == name) verdict.kind = kind;
  }
  verdict.code = json.at("code");
  verdict.reason = json.at("reason");
  return verdict;
}

Json to_json_value(const ContextInfo& info) {
  Json graphs = Json::array();
  for (const ContextGraphInfo& graph : info.graphs) graphs.push_back(graph_to_json(graph));
  return {{"soc_model", info.soc_model},   {"dsp_arch", info.dsp_arch},       {"build_id", info.build_id},
          {"core_api", info.core_api},     {"backend_api", info.backend_api}, {"blob_version", info.blob_version},
          {"blob_bytes", info.blob_bytes}, {"file_bytes", info.file_bytes},   {"graphs", std::move(graphs)}};
}

ContextInfo context_from_json(const Json& json) {
  ContextInfo info;
  info.soc_model = json.at("soc_model");
  info.dsp_arch = json.at("dsp_arch");
  info.build_id = json.at("build_id");
  info.core_api = json.at("core_api");
  info.backend_api = json.at("backend_api");
  info.blob_version = json.at("blob_version");
  info.blob_bytes = json.at("blob_bytes");
  info.file_bytes = json.at("file_bytes");
  for (const Json& graph : json.at("graphs")) info.graphs.push_back(graph_from_json(graph));
  return info;
}

}  // namespace htpipe::qnn
