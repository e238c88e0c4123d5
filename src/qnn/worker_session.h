// The libraries and handles of one worker job. Worker process only.
// Invariant: handles are not freed: the process ends with the job, and the vendor's clean-up can crash or hang.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "qnn/loader.h"

namespace htpipe::qnn {

/// A running backend.
struct Session {
  Backend backend;
  abi::Handle log = nullptr;
  abi::Handle handle = nullptr;
  abi::Handle device = nullptr;   ///< null for the DLC writer
  abi::Handle context = nullptr;  ///< null until make_context

  [[nodiscard]] const abi::BackendTable& api() const { return backend.api(); }
};

/// The HTP compiler and emulator for the chip `soc_model`. Errors: vendor-missing, vendor-version, vendor-error.
Result<Session> open_htp(const std::filesystem::path& folder, std::uint32_t soc_model);
/// The DLC writer.
Result<Session> open_ir(const std::filesystem::path& folder);
/// Creates an empty context in the session. Errors: vendor-error.
Status make_context(Session& session);

}  // namespace htpipe::qnn
