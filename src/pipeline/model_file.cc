#include "pipeline/model_file.h"

#include <utility>

#include "base/interrupt.h"
#include "export/qnn_raising.h"
#include "import/import_model.h"
#include "qnn/vendor.h"

namespace htpipe {

Result<Graph> LoadedModel::graph() && {
  if (own) return std::move(*own);
  return raise_from_qnn(*spec);
}

Result<LoadedModel> load_model(const std::filesystem::path& path, const ImportOptions& options) {
  LoadedModel model;
  if (path.extension() != ".dlc") {
    HTPIPE_TRY(ImportedModel imported, import_model(path, options));
    model.own = std::move(imported.graph);
    model.warnings = std::move(imported.warnings);
    return model;
  }
  if (!options.dims.empty() || !options.shapes.empty() || !options.fix.empty()) {
    return fail(Error(Code::kUsage, "a DLC has fixed shapes and inputs")
                    .in_file(path.string())
                    .with_hint("Leave --dim, --shape and --fix out."));
  }
  qnn::VendorOptions vendor_options;
  vendor_options.cancelled = interrupted;
  HTPIPE_TRY(const qnn::Vendor vendor, qnn::Vendor::find(vendor_options));
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
