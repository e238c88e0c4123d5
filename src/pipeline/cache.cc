#include "pipeline/cache.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/interrupt.h"
#include "base/io.h"
#include "base/log.h"

namespace htpipe {

Result<Cache> Cache::open(const std::filesystem::path& folder, bool force) {
  HTPIPE_CHECK_OK(make_folder(folder));
  const std::filesystem::path lock_file = folder / "lock";
  const int lock = ::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (lock < 0) return fail(Error(Code::kOutputUnwritable, std::strerror(errno)).in_file(lock_file.string()));
  if (::flock(lock, LOCK_EX | LOCK_NB) != 0) {
    ::close(lock);
    return fail(Error(Code::kBusy, "another run holds the lock").in_file(lock_file.string()));
  }
  remove_left_overs(folder);
  return Cache(folder, lock, force);
}

Cache::Cache(Cache&& other) noexcept
    : folder_(std::move(other.folder_)), lock_(std::exchange(other.lock_, -1)), force_(other.force_) {}

Cache::~Cache() {
  if (lock_ >= 0) ::close(lock_);
}

Result<std::filesystem::path> Cache::files(std::string_view stage, std::string_view digest,
                                           const std::function<Status(const std::filesystem::path&)>& build) {
  if (interrupted()) return fail(Code::kInterrupted, fmt::format("before stage {}", stage));
  const std::filesystem::path final = files_folder(stage, digest);
  std::error_code error;
  last_was_cached_ = !force_ && std::filesystem::is_directory(final, error);
  if (last_was_cached_) return final;
  HTPIPE_TRY(const TemporaryFolder temporary, TemporaryFolder::create(folder_));
  const std::filesystem::path work = temporary.path() / "result";
  HTPIPE_CHECK_OK(make_folder(work));
  HTPIPE_CHECK_OK(build(work));
  std::filesystem::remove_all(final, error);
  std::filesystem::rename(work, final, error);
  if (error) return fail(Error(Code::kOutputUnwritable, error.message()).in_file(final.string()));
  return final;
}

void Cache::drop(std::string_view stage, std::string_view digest) {
  std::error_code ignored;
  std::filesystem::remove_all(files_folder(stage, digest), ignored);
}

std::filesystem::path Cache::files_folder(std::string_view stage, std::string_view digest) const {
  return folder_ / fmt::format("{}-{}", stage, digest.substr(0, 32));
}

Result<Json> Cache::json(std::string_view stage, std::string_view digest, const std::function<Result<Json>()>& build) {
  if (interrupted()) return fail(Code::kInterrupted, fmt::format("before stage {}", stage));
  const std::filesystem::path file = folder_ / fmt::format("{}-{}.json", stage, digest.substr(0, 32));
  std::error_code error;
  last_was_cached_ = false;
  if (!force_ && std::filesystem::exists(file, error)) {
    auto stored = read_json(file);
    if (stored) {
      last_was_cached_ = true;
      return stored;
    }
    log::warn("pipeline", "{} cannot be read and is made again", file.string());
  }
  HTPIPE_TRY(Json made, build());
  HTPIPE_CHECK_OK(write_json(file, made));
  return made;
}

}  // namespace htpipe
