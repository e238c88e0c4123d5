// Starts a backend.
#include "qnn/worker_session.h"

#include "qnn/composer.h"
#include "qnn/vendor_log.h"

namespace htpipe::qnn {
namespace {

Result<Session> open_backend(const std::filesystem::path& folder, const char* library, std::uint32_t backend_id) {
  Session session;
  HTPIPE_TRY(session.backend, load_backend(folder, library, backend_id));
  vendor_log::begin_call();
  if (const auto code = session.api().log_create(vendor_log::callback, abi::kLogWarning, &session.log);
      code != abi::kSuccess) {
    return fail(vendor_error("logCreate", code));
  }
  if (const auto code = session.api().backend_create(session.log, nullptr, &session.handle); code != abi::kSuccess) {
    return fail(vendor_error("backendCreate", code));
  }
  return session;
}

}  // namespace

Result<Session> open_htp(const std::filesystem::path& folder, std::uint32_t soc_model) {
  HTPIPE_TRY(Session session, open_backend(folder, "libQnnHtp.so", abi::kBackendHtp));
  // The SoC alone is enough: the architecture follows from it.
  abi::HtpDeviceConfig soc{};
  soc.option = abi::kHtpDeviceSoc;
  soc.value[0] = soc_model;
  const abi::Config config{abi::kConfigCustom, &soc};
  const abi::Config* configs[] = {&config, nullptr};
  vendor_log::begin_call();
  if (const auto code = session.api().device_create(session.log, configs, &session.device); code != abi::kSuccess) {
    return fail(vendor_error("deviceCreate", code).for_target("soc_model " + std::to_string(soc_model)));
  }
  return session;
}

Result<Session> open_ir(const std::filesystem::path& folder) {
  return open_backend(folder, "libQnnIr.so", abi::kBackendIr);
}

Status make_context(Session& session) {
  vendor_log::begin_call();
  if (const auto code = session.api().context_create(session.handle, session.device, nullptr, &session.context);
      code != abi::kSuccess) {
    return fail(vendor_error("contextCreate", code));
  }
  return {};
}

}  // namespace htpipe::qnn
