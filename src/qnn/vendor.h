// Qualcomm's compiler and emulator, as the rest of htpipe sees them.
// Invariant: vendor code runs only in a separate worker process with a time limit, so that its crashes, hangs and leaks
// end as errors that name the node; nothing here loads a vendor library.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "qnn/graph_spec.h"
#include "qnn/install.h"
#include "qnn/reports.h"
#include "tensor/tensor.h"

namespace htpipe::qnn {

/// The chip to compile for. `dsp_arch` 0 = take what the vendor derives from the SoC; otherwise it is checked.
struct DeviceChoice {
  std::uint32_t soc_model = 0;  ///< vendor's number, for instance 57 = SM8650
  std::uint32_t dsp_arch = 0;   ///< for instance 75
  std::string name;             ///< target name for messages, for instance "sm8650"; may be empty
};

struct DlcOptions {
  /// JSON text stored in the archive as htpipe.provenance.json; empty = no such entry.
  std::string provenance;
};

/// Options of the HTP graph compiler.
struct ContextOptions {
  int optimization_level = 3;  ///< 1 to 3
  int vtcm_mb = 0;             ///< 0 = the compiler's default (4 MB)
  /// Further options by name: "hvx_threads", "dlbc", "dlbc_weights", "num_cores", "precision" (0 = float32,
  /// 1 = float16), "fold_relu_off", "short_depth_conv_off", "advanced_activation_fusion", "high_precision_sigmoid",
  /// "weights_packing". An unknown name is a usage error.
  std::vector<std::pair<std::string, double>> custom;
  /// Refuse a graph with an operator that the vendor's validator refuses. Without it such an operator may still
  /// compile, and may compute something else than the model. With a DLC the vendor's reader decides.
  bool validate = true;
};

/// One run of a graph on the vendor's emulator. Exactly one of `graph`, `context_binary` and `dlc` is set.
struct ExecuteRequest {
  const GraphSpec* graph = nullptr;
  /// Every intermediate tensor becomes an output (debug mode). With `graph` or `dlc` only.
  bool expose_natives = false;
  std::filesystem::path context_binary;
  std::filesystem::path dlc;
  std::string graph_name;  ///< empty = the first graph
  DeviceChoice device;     ///< the chip to emulate; a context binary carries its own
  ContextOptions options;  ///< for `graph` and `dlc`
  /// Input name → samples, in the data type of the graph's input, first dimension = samples × the graph's first
  /// dimension and the rest equal. All inputs hold the same number of samples.
  std::map<std::string, Tensor> inputs;
  std::function<void(std::int64_t done, std::int64_t total)> progress;  ///< called in the calling thread; may be empty
  /// Worker processes that share the samples; each compiles or loads the graph for itself (the emulator uses one core).
  /// 0 = one per core, but at least four samples each. The outputs do not depend on it.
  int workers = 0;
};

struct VendorOptions {
  std::filesystem::path folder;     ///< empty = search, see find_install
  double timeout_s = 600;           ///< longest time without a step of progress (one vendor call), not of the whole job
  std::function<bool()> cancelled;  ///< polled while a worker runs; true ends it with `interrupted`. May be empty.
};

/// The vendor's libraries behind a worker process. Copyable; every call starts its own worker, so calls from several
/// threads are independent. Errors of every call: vendor-crash, vendor-timeout, vendor-error, output-unwritable,
/// interrupted, and graph-invalid when the graph itself is wrong.
class Vendor {
 public:
  /// Errors: vendor-missing (with the folders searched), vendor-version (wheel of another version), file-missing (the
  /// worker). Takes no library into this process; `versions` asks the libraries themselves.
  static Result<Vendor> find(VendorOptions options = {});

  [[nodiscard]] const VendorInstall& install() const { return install_; }

  /// Versions as the libraries report them. Errors: vendor-version when the build id is not the supported one.
  [[nodiscard]] Result<Versions> versions() const;

  /// One verdict per operator, in the graph's order, for the chip `soc_model`. An operator whose validation crashes
  /// gets kCrashed; the others are still judged.
  [[nodiscard]] Result<std::vector<OpVerdict>> validate(const GraphSpec& graph, std::uint32_t soc_model) const;

  /// Writes a DLC. The same graph and options give the same bytes.
  [[nodiscard]] Result<CompileReport> compile_dlc(const GraphSpec& graph, const std::filesystem::path& out,
                                                  const DlcOptions& options = {}) const;

  /// Compiles a context binary for one chip and reads it back. Errors: vendor-mismatch when the binary is for another
  /// chip than asked for.
  [[nodiscard]] Result<CompileReport> compile_context(const GraphSpec& graph, const DeviceChoice& device,
                                                      const std::filesystem::path& out,
                                                      const ContextOptions& options = {}) const;
  /// The same from a DLC file.
  [[nodiscard]] Result<CompileReport> compile_context(const std::filesystem::path& dlc, const DeviceChoice& device,
                                                      const std::filesystem::path& out,
                                                      const ContextOptions& options = {}) const;

  /// Errors: context-invalid.
  [[nodiscard]] Result<ContextInfo> inspect_context(const std::filesystem::path& path) const;
  /// Errors: dlc-invalid.
  [[nodiscard]] Result<DlcInfo> inspect_dlc(const std::filesystem::path& path) const;

  /// Errors: data-shape, data-dtype when an input does not fit; usage when not exactly one source is set.
  [[nodiscard]] Result<ExecuteReport> execute(const ExecuteRequest& request) const;

 private:
  Vendor(VendorOptions options, VendorInstall install, std::filesystem::path worker)
      : options_(std::move(options)), install_(std::move(install)), worker_(std::move(worker)) {}
  [[nodiscard]] Result<CompileReport> compile_context_in(const std::filesystem::path& job_folder, Json request,
                                                         const DeviceChoice& device,
                                                         const std::filesystem::path& out) const;
  VendorOptions options_;
  VendorInstall install_;
  std::filesystem::path worker_;
};

}  // namespace htpipe::qnn
