// htpipe info for artifacts: what Qualcomm's readers find in a DLC or a context binary.
#include <fmt/core.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "cli/info.h"
#include "cli/table.h"
#include "qnn/vendor.h"
#include "target/target.h"

namespace htpipe::cli {
namespace {

Json tensor_json(const std::string& name, const TensorType& type) {
  Json json = {{"name", name}, {"dtype", name_of(type.dtype)}, {"shape", type.shape}};
  if (type.encoding) {
    json["scales"] = type.encoding->scales;
    json["zero_points"] = type.encoding->zero_points;
    json["bits"] = type.encoding->bits;
    if (type.encoding->per_channel()) json["axis"] = type.encoding->axis;
  }
  return json;
}

std::string tensor_line(std::string_view what, const std::string& name, const TensorType& type) {
  return fmt::format("  {} {} {}\n", what, name, to_string(type));
}

/// "snapdragon-8-gen-3 (SM8650)" for a chip that has a data file.
std::string chip_name(std::uint32_t soc_model) {
  const auto targets = load_targets();
  if (targets) {
    for (const Target& target : *targets) {
      if (target.soc_model == soc_model) return fmt::format("{} ({})", target.id, target.soc);
    }
  }
  return fmt::format("a chip without a target file (soc_model {})", soc_model);
}

void describe_graph(const qnn::GraphSpec& graph, Answer& answer, Json& list) {
  OpCounts ops;
  for (const qnn::OpSpec& op : graph.ops) ++ops[op.type];
  Json inputs = Json::array();
  Json outputs = Json::array();
  std::string tensors;
  std::uint64_t static_bytes = 0;
  for (const qnn::TensorSpec& tensor : graph.tensors) {
    if (tensor.role == qnn::TensorRole::kStatic) static_bytes += tensor.type.size_bytes();
    if (tensor.role == qnn::TensorRole::kInput) {
      inputs.push_back(tensor_json(tensor.name, tensor.type));
      tensors += tensor_line("input ", tensor.name, tensor.type);
    }
    if (tensor.role == qnn::TensorRole::kOutput) {
      outputs.push_back(tensor_json(tensor.name, tensor.type));
      tensors += tensor_line("output", tensor.name, tensor.type);
    }
  }
  list.push_back({{"name", graph.name},
                  {"inputs", std::move(inputs)},
                  {"outputs", std::move(outputs)},
                  {"ops", counts_json(ops)},
                  {"nodes", graph.ops.size()},
                  {"static_bytes", static_bytes}});
  answer.text += fmt::format("\nGraph {}: {} operators, {} of weights\n{}  operators: {}\n", graph.name,
                             graph.ops.size(), human_bytes(static_bytes), tensors, counts_text(ops));
}

void describe_provenance(const std::string& text, Answer& answer) {
  if (text.empty()) {
    answer.text += "\nProvenance: none recorded\n";
    (*answer.json)["provenance"] = nullptr;
    return;
  }
  const auto json = parse_json(text);
  (*answer.json)["provenance"] = json ? *json : Json(text);
  answer.text += fmt::format("\nProvenance\n{}", json ? to_text(*json) : text + "\n");
}

void describe_graph(const qnn::ContextGraphInfo& graph, Answer& answer, Json& list) {
  Json inputs = Json::array();
  Json outputs = Json::array();
  std::string tensors;
  for (const qnn::GraphTensorInfo& tensor : graph.inputs) {
    inputs.push_back(tensor_json(tensor.name, tensor.type));
    tensors += tensor_line("input ", tensor.name, tensor.type);
  }
  for (const qnn::GraphTensorInfo& tensor : graph.outputs) {
    outputs.push_back(tensor_json(tensor.name, tensor.type));
    tensors += tensor_line("output", tensor.name, tensor.type);
  }
  list.push_back({{"name", graph.name},
                  {"inputs", std::move(inputs)},
                  {"outputs", std::move(outputs)},
                  {"vtcm_bytes", graph.vtcm_bytes},
                  {"spill_fill_bytes", graph.spill_fill_bytes},
                  {"optimization_level", graph.optimization_level},
                  {"hvx_threads", graph.hvx_threads},
                  {"dlbc", graph.dlbc},
                  {"io_bytes", graph.io_bytes},
                  {"op_data_bytes", graph.op_data_bytes},
                  {"const_bytes", graph.const_bytes},
                  {"ddr_tensor_bytes", graph.ddr_tensor_bytes},
                  {"shared_weights_bytes", graph.shared_weights_bytes}});
  answer.text += fmt::format("\nGraph {}\n{}", graph.name, tensors);
  answer.text += fmt::format("  VTCM {}, spill to DDR {}, optimization level {}\n", human_bytes(graph.vtcm_bytes),
                             human_bytes(graph.spill_fill_bytes),
                             graph.optimization_level == 0 ? "default" : std::to_string(graph.optimization_level));
  answer.text += fmt::format("  inputs and outputs {}, operator data {}, constants {}, tensors in DDR {}\n",
                             human_bytes(graph.io_bytes), human_bytes(graph.op_data_bytes),
                             human_bytes(graph.const_bytes), human_bytes(graph.ddr_tensor_bytes));
}

}  // namespace

Result<Answer> info_dlc(const std::filesystem::path& path) {
  HTPIPE_TRY(const qnn::Vendor vendor, qnn::Vendor::find());
  HTPIPE_TRY(const qnn::DlcInfo dlc, vendor.inspect_dlc(path));
  std::error_code ignored;
  const std::uintmax_t bytes = std::filesystem::file_size(path, ignored);
  Answer answer;
  *answer.json = {{"file", path.string()},
                  {"format", "dlc"},
                  {"file_bytes", bytes},
                  {"entries", dlc.entries},
                  {"notes", dlc.notes}};
  answer.text = fmt::format("DLC, {}, entries: {}\n", human_bytes(bytes), fmt::join(dlc.entries, ", "));
  Json graphs = Json::array();
  for (const qnn::GraphSpec& graph : dlc.graphs) describe_graph(graph, answer, graphs);
  (*answer.json)["graphs"] = std::move(graphs);
  for (const std::string& note : dlc.notes) answer.text += fmt::format("Note: {}\n", note);
  describe_provenance(dlc.provenance, answer);
  answer.brief = answer.text;
  return answer;
}

Result<Answer> info_context(const std::filesystem::path& path) {
  HTPIPE_TRY(const qnn::Vendor vendor, qnn::Vendor::find());
  HTPIPE_TRY(const qnn::ContextInfo context, vendor.inspect_context(path));
  Answer answer;
  const std::string chip = chip_name(context.soc_model);
  *answer.json = {{"file", path.string()},
                  {"format", "context_binary"},
                  {"file_bytes", context.file_bytes},
                  {"blob_bytes", context.blob_bytes},
                  {"chip", chip},
                  {"soc_model", context.soc_model},
                  {"htp_version", context.dsp_arch},
                  {"build_id", context.build_id},
                  {"core_api", context.core_api},
                  {"backend_api", context.backend_api},
                  {"blob_version", context.blob_version}};
  answer.text =
      fmt::format("Context binary, {}, for {}, HTP v{}\n", human_bytes(context.file_bytes), chip, context.dsp_arch);
  answer.text += fmt::format("Compiler: {} (core API {}, HTP {}, blob version {})\n", context.build_id,
                             context.core_api, context.backend_api, context.blob_version);
  Json graphs = Json::array();
  for (const qnn::ContextGraphInfo& graph : context.graphs) describe_graph(graph, answer, graphs);
  (*answer.json)["graphs"] = std::move(graphs);
  answer.brief = answer.text;
  return answer;
}

}  // namespace htpipe::cli
