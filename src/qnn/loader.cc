// dlopen, provider look-up and the check of versions.
#include "qnn/loader.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include "qnn/install.h"

namespace htpipe::qnn {
namespace {

constexpr const char* kSystemLibrary = "libQnnSystem.so";
// The tables in abi.h are a prefix of what these releases hand out; the build id check is what pins the release.
constexpr std::uint32_t kSystemApiMajor = 1;
constexpr std::uint32_t kCoreApiMajor = 2;

Result<void*> open_library(const std::filesystem::path& path) {
  // RTLD_LOCAL: the libraries bring private copies of the same symbols. Never closed: their threads outlive a close.
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    return fail(Error(Code::kVendorMissing, reason == nullptr ? "cannot be loaded" : reason).in_file(path.string()));
  }
  return handle;
}

template <typename Function>
Result<Function> symbol(void* library, const char* name, const std::filesystem::path& path) {
  void* address = ::dlsym(library, name);
  if (address == nullptr) {
    return fail(Error(Code::kVendorVersion, fmt::format("lacks the function {}", name)).in_file(path.string()));
  }
  return reinterpret_cast<Function>(address);
}

tl::unexpected<Error> wrong_version(const std::filesystem::path& path, const std::string& found) {
  return fail(Error(Code::kVendorVersion, fmt::format("is {}; supported is {} (onnxruntime-qnn {})", found,
                                                      kSupportedBuildId, kSupportedWheel))
                  .in_file(path.string()));
}

}  // namespace

std::string version_text(const abi::Version& version) {
  return fmt::format("{}.{}.{}", version.major, version.minor, version.patch);
}

Result<Backend> load_backend(const std::filesystem::path& folder, const std::string& name, std::uint32_t backend_id) {
  const std::filesystem::path path = folder / name;
  HTPIPE_TRY(void* const library, open_library(path));
  HTPIPE_TRY(const auto get_providers, symbol<abi::GetBackendProviders>(library, "QnnInterface_getProviders", path));
  const abi::BackendInterface** providers = nullptr;
  std::uint32_t count = 0;
  if (get_providers(&providers, &count) != abi::kSuccess || providers == nullptr) {
    return fail(Error(Code::kVendorVersion, "offers no interface").in_file(path.string()));
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (providers[i] == nullptr || providers[i]->backend_id != backend_id) continue;
    Backend backend;
    backend.interface = providers[i];
    backend.version.library = name;
    backend.version.provider = providers[i]->provider == nullptr ? "" : providers[i]->provider;
    backend.version.backend_id = backend_id;
    backend.version.core_api = version_text(providers[i]->core_api);
    backend.version.backend_api = version_text(providers[i]->backend_api);
    const char* id = nullptr;
    if (backend.api().backend_get_build_id != nullptr && backend.api().backend_get_build_id(&id) == abi::kSuccess &&
        id != nullptr) {
      backend.version.build_id = id;
    }
    if (backend.version.build_id != kSupportedBuildId || providers[i]->core_api.major != kCoreApiMajor) {
      return wrong_version(path,
                           fmt::format("build '{}', core {}", backend.version.build_id, backend.version.core_api));
    }
    return backend;
  }
  return fail(
      Error(Code::kVendorVersion, fmt::format("has no provider with id {}", backend_id)).in_file(path.string()));
}

Result<System> load_system(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kSystemLibrary;
  HTPIPE_TRY(void* const library, open_library(path));
  HTPIPE_TRY(const auto get_providers,
             symbol<abi::GetSystemProviders>(library, "QnnSystemInterface_getProviders", path));
  const abi::SystemInterface** providers = nullptr;
  std::uint32_t count = 0;
  if (get_providers(&providers, &count) != abi::kSuccess || providers == nullptr || count == 0 ||
      providers[0] == nullptr) {
    return fail(Error(Code::kVendorVersion, "offers no interface").in_file(path.string()));
  }
  System system;
  system.interface = providers[0];
  system.version.library = kSystemLibrary;
  system.version.provider = providers[0]->provider == nullptr ? "" : providers[0]->provider;
  system.version.backend_id = providers[0]->backend_id;
  system.version.core_api = version_text(providers[0]->system_api);
  if (providers[0]->system_api.major != kSystemApiMajor || providers[0]->system_api.minor != 15) {
    return wrong_version(path, fmt::format("system API {}", system.version.core_api));
  }
  return system;
}

}  // namespace htpipe::qnn
