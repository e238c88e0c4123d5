// Finds the vendor's folder and the worker executable by looking at files.
#include "qnn/install.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>

namespace htpipe::qnn {
namespace {

namespace fs = std::filesystem;

constexpr std::array kRequired = {"libHtpPrepare.so", "libQnnHtp.so", "libQnnIr.so", "libQnnSystem.so"};
constexpr std::array kOptional = {"libGenie.so", "libQnnSaver.so"};
constexpr const char* kPackage = "onnxruntime_qnn";
constexpr const char* kWorkerName = "htpipe-vendor-worker";

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::vector<std::string> sorted_names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// The folders `start`, its parent and so on.
std::vector<fs::path> upwards(const fs::path& start) {
  std::vector<fs::path> folders;
  for (fs::path at = start.lexically_normal(); !at.empty(); at = at.parent_path()) {
    folders.push_back(at);
    if (at == at.parent_path()) break;
  }
  return folders;
}

/// The package's folder of a Python environment, if it is there.
std::optional<fs::path> package_in(const fs::path& environment_folder, std::vector<std::string>& searched) {
  const fs::path lib = environment_folder / "lib";
  if (!is_folder(lib)) return std::nullopt;
  for (const std::string& name : sorted_names(lib)) {
    if (name.rfind("python3", 0) != 0) continue;
    const fs::path package = lib / name / "site-packages" / kPackage;
    searched.push_back(package.string());
    if (is_folder(package)) return package;
  }
  return std::nullopt;
}

std::vector<fs::path> start_folders() {
  std::vector<fs::path> starts = {executable_folder()};
  std::error_code error;
  const fs::path current = fs::current_path(error);
  if (!error) starts.push_back(current);
  return starts;
}

fs::path search_folder(const fs::path& named, std::vector<std::string>& searched) {
  const std::string from_environment = environment("HTPIPE_VENDOR_DIR");
  if (!named.empty() || !from_environment.empty()) {
    const fs::path folder = named.empty() ? fs::path(from_environment) : named;
    searched.push_back(folder.string());
    return is_folder(folder) ? folder : fs::path();
  }
  for (const fs::path& start : start_folders()) {
    for (const fs::path& folder : upwards(start)) {
      if (const auto found = package_in(folder / ".venv", searched)) return *found;
    }
  }
  const std::string virtual_environment = environment("VIRTUAL_ENV");
  if (!virtual_environment.empty()) {
    if (const auto found = package_in(virtual_environment, searched)) return *found;
  }
  return {};
}

/// "2.7.0" of a sibling folder named onnxruntime_qnn-2.7.0.dist-info.
std::string wheel_version_beside(const fs::path& folder) {
  const std::string prefix = std::string(kPackage) + "-";
  const std::string suffix = ".dist-info";
  for (const std::string& name : sorted_names(folder.parent_path())) {
    if (name.size() > prefix.size() + suffix.size() && name.rfind(prefix, 0) == 0 &&
        name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
      return name.substr(prefix.size(), name.size() - prefix.size() - suffix.size());
    }
  }
  return {};
}

}  // namespace

fs::path executable_folder() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  return error ? fs::path(".") : self.parent_path();
}

VendorInstall find_install(const fs::path& folder) {
  VendorInstall install;
  install.folder = search_folder(folder, install.searched);
  if (!install.folder.empty()) {
    std::error_code error;
    const fs::path absolute = fs::absolute(install.folder, error);
    if (!error) install.folder = absolute.lexically_normal();
    if (!install.folder.has_filename()) install.folder = install.folder.parent_path();
    install.wheel_version = wheel_version_beside(install.folder);
  }
  for (const char* name : kRequired) {
    const bool there = !install.folder.empty() && is_file(install.folder / name);
    (there ? install.present : install.missing).emplace_back(name);
  }
  for (const char* name : kOptional) {
    if (!install.folder.empty() && is_file(install.folder / name)) install.present.emplace_back(name);
  }
  return install;
}

Result<fs::path> find_worker() {
  const std::string named = environment("HTPIPE_VENDOR_WORKER");
  if (!named.empty()) {
    if (is_file(named)) return fs::absolute(named);
    return fail(Error(Code::kFileMissing, "HTPIPE_VENDOR_WORKER names no file").in_file(named));
  }
  const fs::path beside = executable_folder() / kWorkerName;
  if (is_file(beside)) return beside;
  for (const fs::path& start : start_folders()) {
    for (const fs::path& folder : upwards(start)) {
      const fs::path built = folder / "build" / "bin" / kWorkerName;
      if (is_file(built)) return built;
    }
  }
  return fail(Error(Code::kFileMissing, fmt::format("{} is not beside the program", kWorkerName))
                  .in_file(beside.string())
                  .with_hint("Build it with ./dev build, or name it in HTPIPE_VENDOR_WORKER."));
}

}  // namespace htpipe::qnn
