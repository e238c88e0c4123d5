// Loads the vendor's libraries. Worker process only: nothing in the parent may call this.
// Invariant: a library of another build than the supported one is never called beyond asking for its build id.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "qnn/abi.h"
#include "qnn/reports.h"

namespace htpipe::qnn {

/// A loaded backend (libQnnHtp.so, libQnnIr.so). Stays loaded until the process ends.
struct Backend {
  const abi::BackendInterface* interface = nullptr;
  LibraryVersion version;

  [[nodiscard]] const abi::BackendTable& api() const { return interface->table; }
};

/// libQnnSystem.so, the reader of DLCs and context binaries.
struct System {
  const abi::SystemInterface* interface = nullptr;
  LibraryVersion version;

  [[nodiscard]] const abi::SystemTable& api() const { return interface->table; }
};

/// "2.40.0"
[[nodiscard]] std::string version_text(const abi::Version& version);

/// Loads `folder/name` and takes the provider with `backend_id`. Errors: vendor-missing, vendor-version.
Result<Backend> load_backend(const std::filesystem::path& folder, const std::string& name, std::uint32_t backend_id);
/// Errors: vendor-missing, vendor-version.
Result<System> load_system(const std::filesystem::path& folder);

}  // namespace htpipe::qnn
