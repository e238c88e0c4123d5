#include "pipeline/vendor_stages.h"

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "accuracy/metrics.h"
#include "base/hash.h"
#include "base/progress.h"
#include "export/qnn_lowering.h"
#include "pipeline/execute.h"
#include "pipeline/provenance.h"

namespace htpipe {
namespace {

Json context_json(const qnn::ContextInfo& info) {
  Json graphs = Json::array();
  for (const qnn::ContextGraphInfo& graph : info.graphs) {
    graphs.push_back({{"name", graph.name},
                      {"spill_fill_bytes", graph.spill_fill_bytes},
                      {"vtcm_bytes", graph.vtcm_bytes},
                      {"optimization_level", graph.optimization_level},
                      {"const_bytes", graph.const_bytes},
                      {"io_bytes", graph.io_bytes}});
  }
  return {{"soc_model", info.soc_model},   {"dsp_arch", info.dsp_arch},       {"build_id", info.build_id},
          {"core_api", info.core_api},     {"backend_api", info.backend_api}, {"blob_version", info.blob_version},
          {"size_bytes", info.file_bytes}, {"graphs", std::move(graphs)}};
}

Result<std::map<std::string, Tensor>> stacked_inputs(const Graph& quantized, const SampleSource& floats) {
  const SampleSource stored = stored_inputs(quantized, floats);
  std::map<std::string, Tensor> inputs;
  for (std::size_t i = 0; i < quantized.inputs().size(); ++i) {
    HTPIPE_TRY(inputs[quantized.inputs()[i]->name], stack_input(quantized, i, stored));
  }
  return inputs;
}

/// Shows the emulator's samples as progress.
std::function<void(std::int64_t, std::int64_t)> show_progress(const std::string& what) {
  auto shown = std::make_shared<std::pair<std::unique_ptr<Progress>, std::int64_t>>(nullptr, 0);
  return [shown, what](std::int64_t done, std::int64_t total) {
    if (!shown->first) shown->first = std::make_unique<Progress>(what, total);
    if (done > shown->second) shown->first->step(done - shown->second);
    shown->second = done;
  };
}

}  // namespace

Result<Json> vendor_versions(const qnn::Vendor& vendor, Cache& cache, const std::string& program_digest) {
  const qnn::VendorInstall& install = vendor.install();
  Sha256 hash;
  hash.add(program_digest);
  hash.add(install.wheel_version);
  for (const std::string& library : install.present) {
    std::error_code error;
    const std::filesystem::path path = install.folder / library;
    hash.add(path.string());
    hash.add(static_cast<std::int64_t>(std::filesystem::file_size(path, error)));
    hash.add(std::filesystem::last_write_time(path, error).time_since_epoch().count());
  }
  return cache.json("vendor", hash.hex(), [&]() -> Result<Json> {
    HTPIPE_TRY(const qnn::Versions versions, vendor.versions());
    Json libraries = Json::array();
    for (const qnn::LibraryVersion& library : versions.libraries) {
      libraries.push_back({{"library", library.library},
                           {"core_api", library.core_api},
                           {"backend_api", library.backend_api},
                           {"build_id", library.build_id}});
    }
    return Json{
        {"wheel", versions.wheel_version}, {"build_id", versions.build_id}, {"libraries", std::move(libraries)}};
  });
}

Result<Json> vendor_verdicts(Session& session, const Target& target, const Graph& quantized) {
  const std::string key =
      session.key({"validate", digest(quantized), chip_key(target), session.vendor_versions.dump()});
  return session.cache.json("validate", key, [&]() -> Result<Json> {
    HTPIPE_TRY(const qnn::GraphSpec spec, lower_to_qnn(quantized));
    HTPIPE_TRY(const auto verdicts, session.vendor->validate(spec, target.soc_model));
    Json rows = Json::array();
    for (const qnn::OpVerdict& verdict : verdicts) {
      const char* kind = verdict.kind == qnn::OpVerdict::Kind::kSupported ? "supported"
                         : verdict.kind == qnn::OpVerdict::Kind::kRefused ? "refused"
                                                                          : "crashed";
      rows.push_back({{"op", verdict.op},
                      {"type", verdict.type},
                      {"verdict", kind},
                      {"code", verdict.code},
                      {"reason", verdict.reason}});
    }
    return rows;
  });
}

Result<Compiled> compile_artifacts(Session& session, const Target& target, const Graph& quantized,
                                   const std::string& graph_digest) {
  const std::string provenance = to_text(provenance_json(session, target));
  const std::string key =
      session.key({"compile", graph_digest, chip_key(target), provenance, session.vendor_versions.dump()});
  HTPIPE_TRY(
      const std::filesystem::path folder,
      session.cache.files("compile", key, [&](const std::filesystem::path& work) -> Status {
        HTPIPE_TRY(const qnn::GraphSpec spec, lower_to_qnn(quantized));
        qnn::DlcOptions dlc_options;
        dlc_options.provenance = provenance;
        HTPIPE_CHECK_OK(session.vendor->compile_dlc(spec, work / "model.dlc", dlc_options));
        qnn::ContextOptions options;
        options.optimization_level = session.config.vendor.optimization_level;
        HTPIPE_CHECK_OK(session.vendor->compile_context(spec, device_of(target), work / "model.bin", options));
        HTPIPE_TRY(const qnn::ContextInfo info, session.vendor->inspect_context(work / "model.bin"));
        if (info.soc_model != target.soc_model || info.dsp_arch != static_cast<std::uint32_t>(target.htp_version)) {
          return fail(Code::kVendorMismatch,
                      fmt::format("the binary is for SoC {} and v{}, not for {} and {}", info.soc_model, info.dsp_arch,
                                  target.soc_model, target.arch()));
        }
        return write_json(work / "context.json", context_json(info));
      }));
  HTPIPE_TRY(Json context, read_json(folder / "context.json"));
  return Compiled{folder / "model.dlc", folder / "model.bin", std::move(context)};
}

Result<std::map<std::string, Tensor>> emulate_all_values(Session& session, const Target& target,
                                                         const std::filesystem::path& dlc, const Graph& quantized,
                                                         const SampleSource& floats) {
  qnn::ExecuteRequest request;
  request.dlc = dlc;
  request.expose_natives = true;
  request.device = device_of(target);
  request.options.optimization_level = session.config.vendor.optimization_level;
  HTPIPE_TRY(request.inputs, stacked_inputs(quantized, floats));
  request.progress = show_progress("emulate all values, " + target.id);
  HTPIPE_TRY(qnn::ExecuteReport report, session.vendor->execute(request));
  return std::move(report.outputs);
}

Result<Json> emulate_classes(Session& session, const Target& target, const std::filesystem::path& context_binary,
                             const Graph& quantized, const std::string& graph_digest, std::int64_t samples) {
  const std::string key =
      session.key({"emulate", graph_digest, chip_key(target), session.evaluation.digest(), std::to_string(samples),
                   session.vendor_versions.dump(), std::to_string(session.config.vendor.optimization_level)});
  return session.cache.json("emulate", key, [&]() -> Result<Json> {
    qnn::ExecuteRequest request;
    request.context_binary = context_binary;
    request.device = device_of(target);
    HTPIPE_TRY(request.inputs, stacked_inputs(quantized, session.evaluation.floats(samples)));
    request.progress = show_progress("emulate, " + target.id);
    HTPIPE_TRY(const qnn::ExecuteReport report, session.vendor->execute(request));
    const Value& output = *quantized.outputs().front();
    const auto at = report.outputs.find(output.name);
    if (at == report.outputs.end() || at->second.count() != samples * output.type.count()) {
      return fail(Error(Code::kVendorMismatch, "the context binary does not give this output").at_node(output.name));
    }
    const std::vector<float> values = to_floats(at->second);
    const auto size = static_cast<std::size_t>(output.type.count());
    std::vector<std::int64_t> classes;
    for (std::size_t i = 0; i < static_cast<std::size_t>(samples); ++i) {
      classes.push_back(accuracy::argmax(std::span(values).subspan(i * size, size)));
    }
    return Json(classes);
  });
}

}  // namespace htpipe
