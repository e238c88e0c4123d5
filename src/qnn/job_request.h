// What the parent writes into a job folder and reads out of it.
// Invariant: paths in a request are absolute, because the worker runs in the job folder.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "qnn/vendor.h"

namespace htpipe::qnn {

/// A request for `job` with the vendor's folder.
[[nodiscard]] Json request_for(const char* job, const VendorInstall& install);

/// "sm8650 (soc_model 57)", for messages.
[[nodiscard]] std::string target_name(const DeviceChoice& device);

/// The absolute path of a file that exists. Errors: file-missing.
Result<std::filesystem::path> existing_file(const std::filesystem::path& path);

/// Adds the chip, the compiler's options and, when `dlc` is not empty, the DLC to compile.
/// Errors: usage (no chip, unknown option), file-missing, dlc-invalid.
Status add_compilation(Json& request, const std::filesystem::path& dlc, const std::string& graph_name,
                       const DeviceChoice& device, const ContextOptions& options);

/// Writes `graph` into `folder` and names it. Errors: graph-invalid, output-unwritable.
Status add_spec(Json& request, const std::filesystem::path& folder, const GraphSpec& graph);

/// Adds the one source of an execution; a GraphSpec is written into `folder`. Errors: usage, graph-invalid.
Status add_source(Json& body, const std::filesystem::path& folder, const ExecuteRequest& request);

/// Writes the samples into `folder`. Errors: output-unwritable.
Status add_inputs(Json& body, const std::filesystem::path& folder, const std::map<std::string, Tensor>& inputs);

/// How many workers share the samples: as asked for, or one per core but at least four samples each.
[[nodiscard]] int worker_count(const ExecuteRequest& request);

/// Number of samples as far as the request tells (a binary's own batch size is not known here).
[[nodiscard]] std::int64_t sample_count(const ExecuteRequest& request);

/// The outputs in `folder`, mapped. Errors: json-shape, file-missing, file-truncated.
Result<ExecuteReport> read_outputs(const Json& response, const std::filesystem::path& folder);

/// Appends the verdicts that the worker wrote. Errors: json-invalid, json-shape. A missing file is none.
Status append_verdicts(const std::filesystem::path& file, std::vector<OpVerdict>& verdicts);

}  // namespace htpipe::qnn
