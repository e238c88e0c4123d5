// Where Qualcomm's libraries are on this machine, found by looking at files only (nothing is loaded).
// Invariant: looking never fails; what is absent is listed as missing.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace htpipe::qnn {

/// The vendor release that htpipe is written against. The build id of the compiler decides.
inline constexpr const char* kSupportedWheel = "2.7.0";
inline constexpr const char* kSupportedBuildId = "v2.51.0.260929181845";

/// What was found on disk.
struct VendorInstall {
  std::filesystem::path folder;       ///< empty when no folder was found
  std::string wheel_version;          ///< of onnxruntime-qnn, from its dist-info folder; empty when unknown
  std::vector<std::string> present;   ///< library file names
  std::vector<std::string> missing;   ///< required library file names
  std::vector<std::string> searched;  ///< folders that were tried, in order
  [[nodiscard]] bool complete() const { return !folder.empty() && missing.empty(); }
};

/// Looks in `folder` if given, else in HTPIPE_VENDOR_DIR, else in .venv/lib/python3*/site-packages/onnxruntime_qnn of
/// the repository around the running executable or the current folder, else in $VIRTUAL_ENV. The first of these that
/// is set decides; a folder that was named but lacks the libraries is reported, not skipped.
[[nodiscard]] VendorInstall find_install(const std::filesystem::path& folder = {});

/// The folder of the running executable.
[[nodiscard]] std::filesystem::path executable_folder();

/// The vendor worker: HTPIPE_VENDOR_WORKER, else `htpipe-vendor-worker` beside the running executable, else in
/// build/bin of the repository around it or around the current folder. Errors: file-missing.
[[nodiscard]] Result<std::filesystem::path> find_worker();

}  // namespace htpipe::qnn
