// Files that are written in a stream, where write_file_atomic would need the whole content at once. Defined in io.cc.
#pragma once

#include <filesystem>
#include <utility>

#include "base/io.h"
#include "base/result.h"

namespace htpipe {

/// A new file that grows piece by piece, for files in a private folder: it has no other name until move_file gives it
/// one. Errors of all: output-unwritable.
class FileWriter {
 public:
  static Result<FileWriter> create(const std::filesystem::path& path);
  FileWriter(FileWriter&& other) noexcept : path_(std::move(other.path_)), fd_(other.fd_) { other.fd_ = -1; }
  FileWriter& operator=(FileWriter&&) = delete;
  ~FileWriter();
  Status write(Bytes content);
  /// Waits until everything is on the disk.
  Status close();

 private:
  FileWriter(std::filesystem::path path, int fd) : path_(std::move(path)), fd_(fd) {}
  std::filesystem::path path_;
  int fd_;
};

/// Renames a finished file on its file system. Errors: output-unwritable.
Status move_file(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace htpipe
