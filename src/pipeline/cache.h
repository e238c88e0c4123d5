// Results of stages, stored under the digest of all that they depend on.
// Invariant: a result stands under its name only when it is complete; what a killed run left is removed by the next one.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace htpipe {

/// What one stage did in this run.
struct StageRecord {
  std::string stage;
  std::string target;  ///< empty for stages that serve all targets
  std::string result;  ///< one line for people
  double time_ms = 0;
  bool cached = false;
};

class Cache {
 public:
  /// Takes the folder for this process (errors: busy, output-unwritable) and removes left-overs. With `force`, nothing
  /// that is stored is used.
  static Result<Cache> open(const std::filesystem::path& folder, bool force);
  Cache(Cache&& other) noexcept;
  Cache& operator=(Cache&&) = delete;
  ~Cache();

  /// The folder with the files of a stage; `build` fills a new folder when there is none yet.
  Result<std::filesystem::path> files(std::string_view stage, std::string_view digest,
                                      const std::function<Status(const std::filesystem::path& folder)>& build);
  /// Forgets the files of a stage, whose makers have changed since.
  void drop(std::string_view stage, std::string_view digest);
  /// A stage whose result is one JSON document. A document that cannot be read is made again.
  Result<Json> json(std::string_view stage, std::string_view digest, const std::function<Result<Json>()>& build);
  /// Whether the last call of files() or json() since begin_stage() found its result.
  [[nodiscard]] bool last_was_cached() const { return last_was_cached_; }
  void begin_stage() { last_was_cached_ = false; }

 private:
  [[nodiscard]] std::filesystem::path files_folder(std::string_view stage, std::string_view digest) const;
  Cache(std::filesystem::path folder, int lock, bool force) : folder_(std::move(folder)), lock_(lock), force_(force) {}
  std::filesystem::path folder_;
  int lock_;
  bool force_;
  bool last_was_cached_ = false;
};

}  // namespace htpipe
