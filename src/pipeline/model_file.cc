#include "pipeline/model_file.h"

#include <utility>

#include "base/interrupt.h"
#include "export/qnn_raising.h"
#include "import/import_model.h"
#include "qnn/vendor.h"

namespace htpipe {

Result<Graph> LoadedModel::graph() && {
  if (own) return std::move(*own);
  if (soc_model != 0) {
    return fail(Error(Code::kUnsupportedForm, "a context binary holds compiled code, no operators")
                    .with_hint("Run it with --engine htp, or give the model.dlc beside it."));
  }
  return raise_from_qnn(*spec);
}

namespace {

LoadedModel of_context(const qnn::ContextInfo& info) {
  LoadedModel model;
  const qnn::ContextGraphInfo& graph = info.graphs.front();
  model.soc_model = info.soc_model;
  model.spec.emplace();
  model.spec->name = graph.name;
  for (const auto& input : graph.inputs) {
    model.spec->tensors.push_back({input.name, qnn::TensorRole::kInput, input.type, {}});
  }
  for (const auto& output : graph.outputs) {
    model.spec->tensors.push_back({output.name, qnn::TensorRole::kOutput, output.type, {}});
  }
  return model;
}

}  // namespace

Result<LoadedModel> load_model(const std::filesystem::path& path, const ImportOptions& options) {
  LoadedModel model;
  const bool is_context = path.extension() == ".bin";
  if (path.extension() != ".dlc" && !is_context) {
    HTPIPE_TRY(ImportedModel imported, import_model(path, options));
    model.own = std::move(imported.graph);
    model.warnings = std::move(imported.warnings);
    return model;
  }
  if (!options.dims.empty() || !options.shapes.empty() || !options.fix.empty()) {
    return fail(Error(Code::kUsage, "the vendor's files have fixed shapes and inputs")
                    .in_file(path.string())
                    .with_hint("Leave --dim, --shape and --fix out."));
  }
  qnn::VendorOptions vendor_options;
  vendor_options.cancelled = interrupted;
  HTPIPE_TRY(const qnn::Vendor vendor, qnn::Vendor::find(vendor_options));
  if (is_context) {
    HTPIPE_TRY(const qnn::ContextInfo info, vendor.inspect_context(path));
    if (info.graphs.empty()) return fail(Error(Code::kContextInvalid, "holds no graph").in_file(path.string()));
    return of_context(info);
  }
  HTPIPE_TRY(qnn::DlcInfo info, vendor.inspect_dlc(path));
  if (info.graphs.empty()) return fail(Error(Code::kDlcInvalid, "holds no graph").in_file(path.string()));
  if (info.graphs.size() > 1) {
    model.warnings.push_back("of several graphs in the DLC, the first is taken: " + info.graphs.front().name);
  }
  model.warnings.insert(model.warnings.end(), info.notes.begin(), info.notes.end());
  model.spec = std::move(info.graphs.front());
  return model;
}

}  // namespace htpipe
