// Files: whole reads, read-only maps and writes that are atomic.
// Invariant: nothing half-written ever stands under a final name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace htpipe {

using Bytes = std::span<const std::byte>;

/// A read-only memory map of a whole file; lives as long as any copy of the pointer.
class MappedFile {
 public:
  static Result<std::shared_ptr<const MappedFile>> open(const std::filesystem::path& path);
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] Bytes bytes() const { return {data_, size_}; }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  MappedFile(std::filesystem::path path, const std::byte* data, std::size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}
  std::filesystem::path path_;
  const std::byte* data_;
  std::size_t size_;
};

/// Reads a whole file. Errors: file-missing, file-unreadable.
Result<std::string> read_text(const std::filesystem::path& path);

/// Writes through a temporary file in the same folder, fsync and rename; creates missing folders.
/// Errors: output-unwritable (nothing stands under `path` then, or what stood there before).
Status write_file_atomic(const std::filesystem::path& path, std::string_view content);
Status write_file_atomic(const std::filesystem::path& path, Bytes content);

/// Copies a file with the same promise as write_file_atomic.
Status copy_file_atomic(const std::filesystem::path& from, const std::filesystem::path& to);

/// Removes what killed processes left in a folder: temporary files and folders of the functions here whose names begin
/// with `prefix`. Only for names that no other process writes to.
void remove_left_overs(const std::filesystem::path& folder, std::string_view prefix = {});

/// Creates a folder and its parents. Errors: output-unwritable.
Status make_folder(const std::filesystem::path& path);

/// A new private folder below `parent` (or the system's temporary folder when empty); removed with everything in it by
/// the destructor.
class TemporaryFolder {
 public:
  static Result<TemporaryFolder> create(const std::filesystem::path& parent = {});
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept;
  ~TemporaryFolder();
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

inline Bytes as_bytes(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

}  // namespace htpipe
