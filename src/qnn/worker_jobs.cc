// What the worker can do, one function per job.
#include "qnn/worker_jobs.h"

#include <fmt/core.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/io.h"
#include "qnn/composer.h"
#include "qnn/context_reader.h"
#include "qnn/dlc_reader.h"
#include "qnn/emulator.h"
#include "qnn/htp_options.h"
#include "qnn/report_json.h"
#include "qnn/spec_check.h"
#include "qnn/spec_io.h"
#include "qnn/vendor_log.h"
#include "qnn/worker_session.h"

namespace htpipe::qnn {
namespace {

namespace fs = std::filesystem;

fs::path folder_of(const Json& request) { return request.at("vendor_folder").get<std::string>(); }
fs::path path_of(const Json& request, const char* key) { return request.at(key).get<std::string>(); }

Result<GraphSpec> load_spec(const Json& request) {
  HTPIPE_TRY(GraphSpec spec, read_spec(path_of(request, "spec")));
  HTPIPE_CHECK_OK(check(spec));
  return spec;
}

ContextOptions options_of(const Json& request) {
  const Json& from = request.at("options");
  ContextOptions options;
  options.optimization_level = from.at("optimization_level");
  options.vtcm_mb = from.at("vtcm_mb");
  options.validate = from.at("validate");
  options.custom = from.at("custom").get<std::vector<std::pair<std::string, double>>>();
  return options;
}

Status finalize(const Session& session, const GraphHandle& graph, std::vector<StageTime>& stages, Steps& steps) {
  const StageClock clock(stages, "finalize");
  steps.begin("finalize");
  vendor_log::begin_call();
  if (const auto code = session.api().graph_finalize(graph.graph, nullptr, nullptr); code != abi::kSuccess) {
    return fail(vendor_error("graphFinalize", code));
  }
  return {};
}

Status write_artifact(const std::vector<std::byte>& bytes, Steps& steps) {
  steps.begin("write");
  std::ofstream file(kArtifactFile, std::ios::binary | std::ios::trunc);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) return fail(Error(Code::kOutputUnwritable, std::strerror(errno)).in_file(kArtifactFile));
  return {};
}

/// A session with an executable graph of the HTP backend in it.
struct Compiled {
  Session session;
  GraphHandle graph;
  std::shared_ptr<const MappedFile> binary;  ///< the context binary, which the library may go on reading
};

Result<Compiled> compile_htp(const Json& request, const GraphSpec* spec, bool expose, std::vector<StageTime>& stages,
                             Steps& steps) {
  Compiled out;
  const ContextOptions options = options_of(request);
  HTPIPE_TRY(const auto configs, HtpGraphConfigs::make(options));
  {
    const StageClock clock(stages, "load");
    steps.begin("load");
    HTPIPE_TRY(out.session, open_htp(folder_of(request), request.at("soc_model")));
    HTPIPE_CHECK_OK(make_context(out.session));
  }
  {
    const StageClock clock(stages, "compose");
    if (spec != nullptr) {
      HTPIPE_TRY(out.graph, compose(out.session.api(), out.session.handle, out.session.context, *spec, configs->list(),
                                    {expose, options.validate}, steps));
    } else {
      HTPIPE_TRY(const System system, load_system(folder_of(request)));
      HTPIPE_TRY(out.graph, compose_dlc(system, out.session.backend, out.session.handle, out.session.context,
                                        path_of(request, "dlc"), request.at("graph_name"), configs->list(),
                                        configs->count(), expose, steps));
    }
  }
  HTPIPE_CHECK_OK(finalize(out.session, out.graph, stages, steps));
  return out;
}

Result<Json> job_versions(const Json& request, Steps& steps) {
  steps.begin("load");
  const fs::path folder = folder_of(request);
  HTPIPE_TRY(const Backend htp, load_backend(folder, "libQnnHtp.so", abi::kBackendHtp));
  HTPIPE_TRY(const Backend ir, load_backend(folder, "libQnnIr.so", abi::kBackendIr));
  HTPIPE_TRY(const System system, load_system(folder));
  return Json{{"build_id", htp.version.build_id},
              {"libraries", {to_json_value(htp.version), to_json_value(ir.version), to_json_value(system.version)}}};
}

/// Writes one line per verdict as it comes, because the next operator may end the process.
Result<Json> job_validate(const Json& request, Steps& steps) {
  HTPIPE_TRY(const GraphSpec spec, load_spec(request));
  steps.begin("load");
  HTPIPE_TRY(const Session session, open_htp(folder_of(request), request.at("soc_model")));
  std::ofstream verdicts(kVerdictsFile, std::ios::app);
  for (std::size_t i = request.at("first"); i < spec.ops.size(); ++i) {
    const OpSpec& op = spec.ops[i];
    steps.begin("validate", op.name);
    const abi::ErrorCode code = validate_op(session.api(), session.handle, spec, op);
    OpVerdict verdict{op.name, op.type, OpVerdict::Kind::kSupported, 0, {}};
    if (code != abi::kSuccess) {
      verdict.kind = OpVerdict::Kind::kRefused;
      verdict.code = static_cast<std::uint32_t>(code);
      verdict.reason = vendor_log::first_error();
    }
    verdicts << to_json_value(verdict).dump(-1, ' ', false, Json::error_handler_t::replace) << std::endl;
  }
  if (!verdicts) return fail(Error(Code::kOutputUnwritable, "verdicts cannot be written").in_file(kVerdictsFile));
  return Json::object();
}

Result<Json> job_compile_dlc(const Json& request, Steps& steps) {
  std::vector<StageTime> stages;
  HTPIPE_TRY(const GraphSpec spec, load_spec(request));
  Session session;
  {
    const StageClock clock(stages, "load");
    steps.begin("load");
    HTPIPE_TRY(session, open_ir(folder_of(request)));
    HTPIPE_CHECK_OK(make_context(session));
  }
  abi::IrGraphConfig ir{1, 0, 1, kArtifactFile};
  const abi::Config config{abi::kConfigCustom, &ir};
  const abi::Config* configs[] = {&config, nullptr};
  GraphHandle graph;
  {
    const StageClock clock(stages, "compose");
    // The DLC writer accepts what no chip has, so its own validator says nothing about a target.
    HTPIPE_TRY(graph, compose(session.api(), session.handle, session.context, spec, configs, {false, false}, steps));
  }
  HTPIPE_CHECK_OK(finalize(session, graph, stages, steps));
  {
    const StageClock clock(stages, "serialize");
    steps.begin("serialize");
    vendor_log::begin_call();
    if (const auto code = session.api().context_free(session.context, nullptr); code != abi::kSuccess) {
      return fail(vendor_error("contextFree", code));
    }
  }
  return Json{{"stages", to_json_value(stages)}};
}

Result<Json> job_compile_context(const Json& request, Steps& steps) {
  std::vector<StageTime> stages;
  GraphSpec spec;
  const bool from_spec = !request.contains("dlc");
  if (from_spec) {
    HTPIPE_TRY(spec, load_spec(request));
  }
  HTPIPE_TRY(const Compiled compiled, compile_htp(request, from_spec ? &spec : nullptr, false, stages, steps));
  std::vector<std::byte> bytes;
  {
    const StageClock clock(stages, "serialize");
    steps.begin("serialize");
    const Session& session = compiled.session;
    abi::Size size = 0;
    vendor_log::begin_call();
    if (const auto code = session.api().context_get_binary_size(session.context, &size); code != abi::kSuccess) {
      return fail(vendor_error("contextGetBinarySize", code));
    }
    bytes.resize(size);
    if (const auto code = session.api().context_get_binary(session.context, bytes.data(), size, &size);
        code != abi::kSuccess) {
      return fail(vendor_error("contextGetBinary", code));
    }
    if (size > bytes.size()) return fail(Code::kVendorError, "contextGetBinary wrote more than it announced");
    bytes.resize(size);
    HTPIPE_CHECK_OK(write_artifact(bytes, steps));
  }
  const StageClock clock(stages, "read back");
  steps.begin("read back");
  HTPIPE_TRY(const System system, load_system(folder_of(request)));
  HTPIPE_TRY(const ContextContents contents, read_context(system, bytes));
  return Json{{"stages", to_json_value(stages)}, {"context", to_json_value(contents.info)}};
}

Result<Json> job_inspect_context(const Json& request, Steps& steps) {
  steps.begin("read");
  HTPIPE_TRY(const System system, load_system(folder_of(request)));
  const fs::path path = path_of(request, "path");
  HTPIPE_TRY(const auto file, MappedFile::open(path));
  auto contents = read_context(system, file->bytes());
  if (!contents) return fail(std::move(contents.error()).in_file(path.string()));
  return Json{{"context", to_json_value(contents->info)}};
}

Result<Json> job_inspect_dlc(const Json& request, Steps& steps) {
  steps.begin("read");
  HTPIPE_TRY(const System system, load_system(folder_of(request)));
  HTPIPE_TRY(const Backend ir, load_backend(folder_of(request), "libQnnIr.so", abi::kBackendIr));
  HTPIPE_TRY(const DlcGraphs contents, read_dlc(system, ir, path_of(request, "path")));
  for (std::size_t i = 0; i < contents.graphs.size(); ++i) {
    if (!request.at("with_graphs").get<bool>()) break;
    steps.begin("write", contents.graphs[i].name);
    HTPIPE_CHECK_OK(write_spec(kGraphFolderPrefix + std::to_string(i), contents.graphs[i]));
  }
  return Json{{"graphs", contents.graphs.size()}, {"notes", contents.notes}};
}

/// Loads a context binary and takes one graph of it.
Result<Compiled> load_context(const Json& request, std::vector<StageTime>& stages, Steps& steps) {
  const StageClock clock(stages, "load");
  const fs::path path = path_of(request, "context_binary");
  HTPIPE_TRY(const auto file, MappedFile::open(path));
  steps.begin("read", path.filename().string());
  HTPIPE_TRY(const System system, load_system(folder_of(request)));
  auto contents = read_context(system, file->bytes());
  if (!contents) return fail(std::move(contents.error()).in_file(path.string()));
  std::string name = request.at("graph_name");
  std::size_t index = 0;
  const auto& graphs = contents->info.graphs;
  while (index < graphs.size() && !name.empty() && graphs[index].name != name) ++index;
  if (index >= graphs.size()) {
    return fail(
        Error(Code::kUsage, fmt::format("the context binary has no graph named '{}'", name)).in_file(path.string()));
  }
  name = graphs[index].name;
  Compiled out;
  out.binary = file;
  out.graph = std::move(contents->graphs[index]);
  // The emulator does not compare the chip with the binary's, so it is started for the binary's own.
  HTPIPE_TRY(out.session, open_htp(folder_of(request), contents->info.soc_model));
  steps.begin("load", path.filename().string());
  vendor_log::begin_call();
  const Session& session = out.session;
  const Bytes bytes = file->bytes();
  if (const auto code = session.api().context_create_from_binary(session.handle, session.device, nullptr, bytes.data(),
                                                                 bytes.size(), &out.session.context, nullptr);
      code != abi::kSuccess) {
    Error error = vendor_error("contextCreateFromBinary", code);
    return fail(Error(Code::kContextInvalid, std::move(error.message)).in_file(path.string()));
  }
  if (const auto code = session.api().graph_retrieve(session.context, name.c_str(), &out.graph.graph);
      code != abi::kSuccess) {
    return fail(vendor_error("graphRetrieve", code).in_file(path.string()));
  }
  return out;
}

Result<std::map<std::string, SampleFile>> open_inputs(const Json& request) {
  std::map<std::string, SampleFile> inputs;
  for (const Json& from : request.at("inputs")) {
    SampleFile input;
    input.type = type_from_json(from.at("type"));
    HTPIPE_TRY(input.data, MappedFile::open(path_of(from, "file")));
    inputs[from.at("name").get<std::string>()] = std::move(input);
  }
  return inputs;
}

Result<Json> job_execute(const Json& request, Steps& steps) {
  std::vector<StageTime> stages;
  GraphSpec spec;
  Compiled compiled;
  if (request.contains("context_binary")) {
    HTPIPE_TRY(compiled, load_context(request, stages, steps));
  } else {
    const bool from_spec = !request.contains("dlc");
    if (from_spec) {
      HTPIPE_TRY(spec, load_spec(request));
    }
    HTPIPE_TRY(compiled,
               compile_htp(request, from_spec ? &spec : nullptr, request.at("expose_natives"), stages, steps));
  }
  HTPIPE_TRY(const auto inputs, open_inputs(request));
  HTPIPE_TRY(const std::int64_t samples, count_samples(compiled.graph, inputs));
  {
    const StageClock clock(stages, "execute");
    const std::int64_t part = request.at("part");
    const std::int64_t parts = request.at("parts");
    HTPIPE_CHECK_OK(run_samples(compiled.session.api(), compiled.graph, inputs, samples * part / parts,
                                samples * (part + 1) / parts, path_of(request, "output_folder"), steps));
  }
  Json outputs = Json::array();
  for (const GraphPort& port : compiled.graph.outputs) {
    outputs.push_back({{"name", port.spec.name}, {"type", type_to_json(port.spec.type)}});
  }
  return Json{{"stages", to_json_value(stages)}, {"samples", samples}, {"outputs", std::move(outputs)}};
}

using Job = Result<Json> (*)(const Json&, Steps&);
constexpr std::array<std::pair<const char*, Job>, 7> kJobs = {{
    {"versions", job_versions},
    {"validate", job_validate},
    {"compile_dlc", job_compile_dlc},
    {"compile_context", job_compile_context},
    {"inspect_context", job_inspect_context},
    {"inspect_dlc", job_inspect_dlc},
    {"execute", job_execute},
}};

}  // namespace

Result<Json> run_job(const Json& request, Steps& steps) {
  try {
    const std::string name = request.at("job");
    for (const auto& [known, job] : kJobs) {
      if (name == known) return job(request, steps);
    }
    return fail(Code::kUsage, fmt::format("no vendor job is named {}", name));
  } catch (const Json::exception& error) {
    return fail(Error(Code::kJsonShape, error.what()).in_file(kRequestFile));
  }
}

}  // namespace htpipe::qnn
