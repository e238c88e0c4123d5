// Requests and results as files of a job folder.
#include "qnn/job_request.h"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/io.h"
#include "base/parallel.h"
#include "qnn/dlc_archive.h"
#include "qnn/htp_options.h"
#include "qnn/report_json.h"
#include "qnn/spec_check.h"
#include "qnn/spec_io.h"
#include "qnn/worker_jobs.h"
#include "tensor/checked_size.h"

namespace htpipe::qnn {
namespace {

namespace fs = std::filesystem;

Result<Tensor> mapped_output(const Json& output, std::size_t index, std::int64_t samples, const fs::path& folder) {
  TensorType type = type_from_json(output.at("type"));
  if (type.shape.empty()) type.shape.push_back(1);
  type.shape.front() *= samples;
  const auto size = checked_size_bytes(type.shape, type.dtype);
  const fs::path path = folder / fmt::format("output_{}.bin", index);
  HTPIPE_TRY(const auto file, MappedFile::open(path));
  if (!size || file->bytes().size() != *size) {
    return fail(Error(Code::kFileTruncated, fmt::format("{} bytes for {}", file->bytes().size(), to_string(type)))
                    .in_file(path.string()));
  }
  if (*size == 0) return Tensor(std::move(type));
  // Unlinking the folder later does not end the map.
  return Tensor(std::move(type), file, file->bytes().data());
}

}  // namespace

Json request_for(const char* job, const VendorInstall& install) {
  return {{"job", job}, {"vendor_folder", install.folder.string()}};
}

std::string target_name(const DeviceChoice& device) {
  if (device.soc_model == 0) return device.name;
  return device.name.empty() ? fmt::format("soc_model {}", device.soc_model)
                             : fmt::format("{} (soc_model {})", device.name, device.soc_model);
}

Result<fs::path> existing_file(const fs::path& path) {
  std::error_code error;
  fs::path absolute = fs::absolute(path, error);
  if (error || !fs::is_regular_file(absolute, error)) {
    return fail(Error(Code::kFileMissing, "no such file").in_file(path.string()));
  }
  return absolute;
}

Status add_compilation(Json& request, const fs::path& dlc, const std::string& graph_name, const DeviceChoice& device,
                       const ContextOptions& options) {
  if (device.soc_model == 0) return fail(Code::kUsage, "no chip (soc_model) was given");
  HTPIPE_CHECK_OK(HtpGraphConfigs::make(options));
  request["soc_model"] = device.soc_model;
  request["graph_name"] = graph_name;
  request["options"] = {{"optimization_level", options.optimization_level},
                        {"vtcm_mb", options.vtcm_mb},
                        {"validate", options.validate},
                        {"custom", options.custom}};
  if (!dlc.empty()) {
    HTPIPE_TRY(const fs::path absolute, existing_file(dlc));
    HTPIPE_TRY(const auto file, MappedFile::open(absolute));
    HTPIPE_CHECK_OK(list_dlc(file));
    request["dlc"] = absolute.string();
  }
  return {};
}

Status add_spec(Json& request, const fs::path& folder, const GraphSpec& graph) {
  HTPIPE_CHECK_OK(check(graph));
  request["spec"] = (folder / kSpecFolder).string();
  return write_spec(folder / kSpecFolder, graph);
}

Status add_source(Json& body, const fs::path& folder, const ExecuteRequest& request) {
  const int sources =
      (request.graph != nullptr ? 1 : 0) + (request.dlc.empty() ? 0 : 1) + (request.context_binary.empty() ? 0 : 1);
  if (sources != 1) return fail(Code::kUsage, "an execution needs one of a graph, a DLC and a context binary");
  if (!request.context_binary.empty()) {
    if (request.expose_natives) {
      return fail(Code::kUsage, "a context binary has no intermediate tensors to show; execute the graph or the DLC");
    }
    HTPIPE_TRY(const fs::path absolute, existing_file(request.context_binary));
    body["context_binary"] = absolute.string();
    body["graph_name"] = request.graph_name;
    return {};
  }
  body["expose_natives"] = request.expose_natives;
  HTPIPE_CHECK_OK(add_compilation(body, request.dlc, request.graph_name, request.device, request.options));
  if (request.graph == nullptr) return {};
  return add_spec(body, folder, *request.graph);
}

Status add_inputs(Json& body, const fs::path& folder, const std::map<std::string, Tensor>& inputs) {
  Json& list = body["inputs"] = Json::array();
  for (const auto& [name, tensor] : inputs) {
    const std::string file = (folder / fmt::format("input_{}.bin", list.size())).string();
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    const Bytes bytes = tensor.bytes();
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    out.close();
    if (!out) return fail(Error(Code::kOutputUnwritable, std::strerror(errno)).in_file(file));
    list.push_back({{"name", name}, {"file", file}, {"type", type_to_json(tensor.type())}});
  }
  return {};
}

std::int64_t sample_count(const ExecuteRequest& request) {
  if (request.inputs.empty()) return 1;
  const auto& [name, tensor] = *request.inputs.begin();
  if (tensor.shape().empty()) return 1;
  const TensorSpec* port = request.graph == nullptr ? nullptr : request.graph->find(name);
  const std::int64_t batch = port == nullptr || port->type.shape.empty() ? 1 : port->type.shape.front();
  return batch > 0 ? tensor.shape().front() / batch : tensor.shape().front();
}

int worker_count(const ExecuteRequest& request) {
  const std::int64_t samples = std::max<std::int64_t>(1, sample_count(request));
  if (request.workers > 0) return static_cast<int>(std::min<std::int64_t>(request.workers, samples));
  constexpr std::int64_t kSamplesWorthAWorker = 4;
  return static_cast<int>(std::clamp<std::int64_t>(samples / kSamplesWorthAWorker, 1, thread_count()));
}

Result<ExecuteReport> read_outputs(const Json& response, const fs::path& folder) {
  try {
    ExecuteReport report;
    report.samples = response.at("samples");
    report.stages = stages_from_json(response.at("stages"));
    report.log = response.at("log").get<std::vector<std::string>>();
    std::size_t index = 0;
    for (const Json& output : response.at("outputs")) {
      HTPIPE_TRY(Tensor tensor, mapped_output(output, index++, report.samples, folder));
      report.outputs.emplace(output.at("name").get<std::string>(), std::move(tensor));
    }
    return report;
  } catch (const Json::exception& error) {
    return fail(Error(Code::kJsonShape, error.what()).in_file(kResponseFile));
  }
}

Status append_verdicts(const fs::path& file, std::vector<OpVerdict>& verdicts) {
  auto text = read_text(file);
  if (!text) return {};
  std::istringstream lines(*text);
  std::string line;
  while (std::getline(lines, line)) {
    HTPIPE_TRY(const Json json, parse_json(line));
    try {
      verdicts.push_back(verdict_from_json(json));
    } catch (const Json::exception& error) {
      return fail(Error(Code::kJsonShape, error.what()).in_file(file.string()));
    }
  }
  return {};
}

}  // namespace htpipe::qnn
