// The parent's side: writes a job folder, has the worker do it, takes the result out.
#include "qnn/vendor.h"

#include <fmt/core.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/hash.h"
#include "base/io.h"
#include "base/json.h"
#include "base/log.h"
#include "qnn/dlc_archive.h"
#include "qnn/job_request.h"
#include "qnn/report_json.h"
#include "qnn/spec_check.h"
#include "qnn/spec_io.h"
#include "qnn/worker_jobs.h"
#include "qnn/worker_process.h"

namespace htpipe::qnn {
namespace {

namespace fs = std::filesystem;

WorkerWatch watch_of(const VendorOptions& options) { return {options.timeout_s, options.cancelled, {}}; }

/// Runs `read` on a response; what it throws on a wrong shape becomes an error.
template <typename Read>
auto from_response(const Json& response, Read read) -> Result<decltype(read(response))> {
  try {
    return read(response);
  } catch (const Json::exception& error) {
    return fail(Error(Code::kJsonShape, error.what()).in_file(kResponseFile));
  }
}

Error about(Error error, const DeviceChoice& device) {
  if (error.place.target.empty()) error.place.target = target_name(device);
  return error;
}

Error about(Error error, const fs::path& file) {
  if (error.place.file.empty()) error.place.file = file.string();
  return error;
}

/// Puts the finished artifact under its final name.
Result<CompileReport> publish(Bytes content, const fs::path& out, const Json& response) {
  HTPIPE_CHECK_OK(write_file_atomic(out, content));
  return from_response(response, [&](const Json& json) {
    CompileReport report;
    report.path = out;
    report.size_bytes = content.size();
    report.sha256 = sha256_hex(content);
    report.stages = stages_from_json(json.at("stages"));
    report.log = json.at("log").get<std::vector<std::string>>();
    return report;
  });
}

Status compare(const ContextInfo& info, const DeviceChoice& device) {
  if (info.soc_model != device.soc_model || (device.dsp_arch != 0 && info.dsp_arch != device.dsp_arch)) {
    return fail(
        Error(Code::kVendorMismatch, fmt::format("the context binary is for soc_model {} (v{}), asked for was {} (v{})",
                                                 info.soc_model, info.dsp_arch, device.soc_model, device.dsp_arch))
            .for_target(target_name(device)));
  }
  return {};
}

}  // namespace

Result<Vendor> Vendor::find(VendorOptions options) {
  VendorInstall install = find_install(options.folder);
  if (!install.complete()) {
    Error error(Code::kVendorMissing, install.folder.empty()
                                          ? std::string("no folder with Qualcomm's libraries was found")
                                          : fmt::format("lacks {}", fmt::join(install.missing, ", ")));
    error.place.file = install.folder.string();
    error.notes.push_back(install.searched.empty() ? "no Python environment (.venv) around the program or this folder"
                                                   : fmt::format("searched: {}", fmt::join(install.searched, ", ")));
    return fail(std::move(error));
  }
  HTPIPE_TRY(fs::path worker, find_worker());
  return Vendor(std::move(options), std::move(install), std::move(worker));
}

Result<Versions> Vendor::versions() const {
  HTPIPE_TRY(const TemporaryFolder job, TemporaryFolder::create());
  HTPIPE_TRY(const Json response,
             run_worker(worker_, job.path(), request_for("versions", install_), watch_of(options_)));
  return from_response(response, [this](const Json& json) {
    Versions versions;
    versions.folder = install_.folder;
    versions.wheel_version = install_.wheel_version;
    versions.build_id = json.at("build_id");
    for (const Json& library : json.at("libraries")) versions.libraries.push_back(library_from_json(library));
    return versions;
  });
}

Result<std::vector<OpVerdict>> Vendor::validate(const GraphSpec& graph, std::uint32_t soc_model) const {
  HTPIPE_TRY(const TemporaryFolder job, TemporaryFolder::create());
  Json request = request_for("validate", install_);
  HTPIPE_CHECK_OK(add_spec(request, job.path(), graph));
  request["soc_model"] = soc_model;
  std::vector<OpVerdict> verdicts;
  // Every crash costs one operator and one new worker.
  while (verdicts.size() < graph.ops.size()) {
    std::error_code ignored;
    fs::remove(job.path() / kVerdictsFile, ignored);
    request["first"] = verdicts.size();
    const auto response = run_worker(worker_, job.path(), request, watch_of(options_));
    HTPIPE_CHECK_OK(append_verdicts(job.path() / kVerdictsFile, verdicts));
    if (response) break;
    const Error& error = response.error();
    const bool in_validator = error.code == Code::kVendorCrash && verdicts.size() < graph.ops.size() &&
                              error.place.node == graph.ops[verdicts.size()].name;
    if (!in_validator) return fail(error);
    const OpSpec& op = graph.ops[verdicts.size()];
    verdicts.push_back({op.name, op.type, OpVerdict::Kind::kCrashed, 0, error.message});
    log::debug("vendor", "{}", error.summary());
  }
  if (verdicts.size() != graph.ops.size()) return fail(Code::kVendorError, "the worker left out verdicts");
  return verdicts;
}

Result<CompileReport> Vendor::compile_dlc(const GraphSpec& graph, const fs::path& out,
                                          const DlcOptions& options) const {
  HTPIPE_TRY(const TemporaryFolder job, TemporaryFolder::create());
  Json compilation = request_for("compile_dlc", install_);
  HTPIPE_CHECK_OK(add_spec(compilation, job.path(), graph));
  HTPIPE_TRY(const Json response, run_worker(worker_, job.path(), std::move(compilation), watch_of(options_)));
  HTPIPE_TRY(const auto raw, MappedFile::open(job.path() / kArtifactFile));
  HTPIPE_TRY(const std::string archive, normalise_dlc(raw, options.provenance));
  // The reader has the last word on what we rewrote, before anything stands under the final name.
  const fs::path rewritten = job.path() / "rewritten.dlc";
  HTPIPE_CHECK_OK(write_file_atomic(rewritten, archive));
  Json request = request_for("inspect_dlc", install_);
  request["path"] = rewritten.string();
  request["with_graphs"] = false;
  auto read_back = run_worker(worker_, job.path(), std::move(request), watch_of(options_));
  if (!read_back) {
    read_back.error().place.file = out.string();
    return fail(std::move(read_back.error())
                    .with_note("the DLC that was just written cannot be read back")
                    .with_hint("Most often an operator that the vendor does not know."));
  }
  return publish(as_bytes(archive), out, response);
}

Result<CompileReport> Vendor::compile_context(const GraphSpec& graph, const DeviceChoice& device, const fs::path& out,
                                              const ContextOptions& options) const {
  HTPIPE_TRY(const TemporaryFolder job, TemporaryFolder::create());
  Json request = request_for("compile_context", install_);
  HTPIPE_CHECK_OK(add_spec(request, job.path(), graph));
  HTPIPE_CHECK_OK(add_compilation(request, {}, {}, device, options));
  return compile_context_in(job.path(), std::move(request), device, out);
}

Result<CompileReport> Vendor::compile_context(const fs::path& dlc, const DeviceChoice& device, const fs::path& out,
                                              const ContextOptions& options) const {
  HTPIPE_TRY(const TemporaryFolder job, TemporaryFolder::create());
  Json request = request_for("compile_context", install_);
  HTPIPE_CHECK_OK(add_compilation(request, dlc, {}, device, options));
  return compile_context_in(job.path(), std::move(request), device, out);
}

Result<CompileReport> Vendor::compile_context_in(const fs::path& job_folder, Json request, const DeviceChoice& device,
                                                 const fs::path& out) const {
  auto response = run_worker(worker_, job_folder, std::move(request), watch_of(options_));
  if (!response) return fail(about(std::move(response.error()), device));
  HTPIPE_TRY(const ContextInfo info,
             from_response(*response, [](const Json& json) { return context_from_json(json.at("context")); }));
  HTPIPE_CHECK_OK(compare(info, device));
  HTPIPE_TRY(const auto binary, MappedFile::open(job_folder / kArtifactFile));
  return publish(binary->bytes(), out, *response);
}

Result<ContextInfo> Vendor::inspect_context(const fs::path& path) const {
  HTPIPE_TRY(const fs::path absolute, existing_file(path));
  HTPIPE_TRY(const TemporaryFolder job, TemporaryFolder::create());
  Json request = request_for("inspect_context", install_);
  request["path"] = absolute.string();
  const auto response = run_worker(worker_, job.path(), std::move(request), watch_of(options_));
  if (!response) return fail(about(response.error(), path));
  return from_response(*response, [](const Json& json) { return context_from_json(json.at("context")); });
}

Result<DlcInfo> Vendor::inspect_dlc(const fs::path& path) const {
  HTPIPE_TRY(const fs::path absolute, existing_file(path));
  HTPIPE_TRY(const auto file, MappedFile::open(absolute));
  HTPIPE_TRY(const DlcEntries entries, list_dlc(file));
  HTPIPE_TRY(const TemporaryFolder job, TemporaryFolder::create());
  Json request = request_for("inspect_dlc", install_);
  request["path"] = absolute.string();
  request["with_graphs"] = true;
  const auto response = run_worker(worker_, job.path(), std::move(request), watch_of(options_));
  if (!response) return fail(about(response.error(), path));
  DlcInfo info;
  info.entries = entries.names;
  info.provenance = entries.provenance;
  HTPIPE_TRY(const auto count, from_response(*response, [&info](const Json& json) {
               info.notes = json.at("notes").get<std::vector<std::string>>();
               return json.at("graphs").get<std::size_t>();
             }));
  for (std::size_t i = 0; i < count; ++i) {
    HTPIPE_TRY(GraphSpec graph, read_spec(job.path() / (kGraphFolderPrefix + std::to_string(i))));
    info.graphs.push_back(std::move(graph));
  }
  return info;
}

Result<ExecuteReport> Vendor::execute(const ExecuteRequest& request) const {
  HTPIPE_TRY(const TemporaryFolder shared, TemporaryFolder::create());
  Json body = request_for("execute", install_);
  HTPIPE_CHECK_OK(add_source(body, shared.path(), request));
  HTPIPE_CHECK_OK(add_inputs(body, shared.path(), request.inputs));
  body["output_folder"] = shared.path().string();
  const int parts = worker_count(request);
  body["parts"] = parts;
  std::vector<WorkerJob> jobs;
  for (int part = 0; part < parts; ++part) {
    const fs::path folder = shared.path() / fmt::format("worker_{}", part);
    HTPIPE_CHECK_OK(make_folder(folder));
    body["part"] = part;
    jobs.push_back({folder, body});
  }
  WorkerWatch watch = watch_of(options_);
  const std::int64_t total = sample_count(request);
  std::int64_t begun = 0;
  std::set<std::size_t> executing;
  if (request.progress) {
    watch.on_step = [&](std::size_t worker, const std::string& verb, const std::string&) {
      if (verb != "execute") return;
      ++begun;
      executing.insert(worker);
      request.progress(begun - static_cast<std::int64_t>(executing.size()), total);
    };
  }
  auto responses = run_workers(worker_, jobs, watch);
  if (!responses) return fail(about(std::move(responses.error()), request.device));
  HTPIPE_TRY(ExecuteReport report, read_outputs(responses->front(), shared.path()));
  if (request.progress) request.progress(report.samples, report.samples);
  return report;
}

}  // namespace htpipe::qnn
