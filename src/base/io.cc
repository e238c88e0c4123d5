#include "base/io.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/file_writer.h"

namespace htpipe {
namespace {

/// Marks of unfinished files and folders.
constexpr std::string_view kTemporaryFile = ".tmp-";
constexpr std::string_view kTemporaryFolder = "htpipe-";

std::string errno_text() { return std::strerror(errno); }

/// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const { return fd_; }
  /// Closes now and says whether that worked (delayed write errors show here).
  [[nodiscard]] bool close() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd) == 0;
  }

 private:
  int fd_;
};

tl::unexpected<Error> open_error(const std::filesystem::path& path) {
  const Code code = errno == ENOENT || errno == ENOTDIR ? Code::kFileMissing : Code::kFileUnreadable;
  return fail(Error(code, errno_text()).in_file(path.string()));
}

tl::unexpected<Error> write_error(const std::filesystem::path& path, std::string_view doing) {
  return fail(Error(Code::kOutputUnwritable, fmt::format("{}: {}", doing, errno_text())).in_file(path.string()));
}

bool write_all(int fd, Bytes content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    content = content.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Result<std::shared_ptr<const MappedFile>> MappedFile::open(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return open_error(path);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) return open_error(path);
  if (!S_ISREG(status.st_mode)) {
    return fail(Error(Code::kFileUnreadable, "not a regular file").in_file(path.string()));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  const std::byte* data = nullptr;
  if (size > 0) {
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.get(), 0);
    if (address == MAP_FAILED) return fail(Error(Code::kFileUnreadable, errno_text()).in_file(path.string()));
    data = static_cast<const std::byte*>(address);
  }
  return std::shared_ptr<const MappedFile>(new MappedFile(path, data, size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<std::string> read_text(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return open_error(path);
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t count = ::read(file.get(), buffer, sizeof buffer);
    if (count < 0) {
      if (errno == EINTR) continue;
      return fail(Error(Code::kFileUnreadable, errno_text()).in_file(path.string()));
    }
    if (count == 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
  }
}

Status make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return fail(Error(Code::kOutputUnwritable, error.message()).in_file(path.string()));
  return {};
}

Status write_file_atomic(const std::filesystem::path& path, Bytes content) {
  if (path.has_parent_path()) HTPIPE_CHECK_OK(make_folder(path.parent_path()));
  std::string temporary = fmt::format("{}{}XXXXXX", path.string(), kTemporaryFile);
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return write_error(path, "cannot create a file beside it");
  const bool written = write_all(file.get(), content) && ::fchmod(file.get(), 0644) == 0 && ::fsync(file.get()) == 0;
  if (!written || !file.close() || ::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    errno = reason;
    return write_error(path, "cannot write");
  }
  return {};
}

Status write_file_atomic(const std::filesystem::path& path, std::string_view content) {
  return write_file_atomic(path, as_bytes(content));
}

Status copy_file_atomic(const std::filesystem::path& from, const std::filesystem::path& to) {
  HTPIPE_TRY(const auto file, MappedFile::open(from));
  return write_file_atomic(to, file->bytes());
}

Result<FileWriter> FileWriter::create(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return write_error(path, "cannot create it");
  return FileWriter(path, fd);
}

FileWriter::~FileWriter() {
  if (fd_ >= 0) ::close(fd_);
}

Status FileWriter::write(Bytes content) {
  if (!write_all(fd_, content)) return write_error(path_, "cannot write");
  return {};
}

Status FileWriter::close() {
  const bool synced = ::fsync(fd_) == 0;
  const int reason = errno;
  const bool closed = ::close(std::exchange(fd_, -1)) == 0;
  if (!synced) errno = reason;
  if (!synced || !closed) return write_error(path_, "cannot write");
  return {};
}

Status move_file(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return write_error(to, "cannot write");
  return {};
}

void remove_left_overs(const std::filesystem::path& folder, std::string_view prefix) {
  std::error_code error;
  std::vector<std::filesystem::path> stale;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) != 0) continue;
    if (name.rfind(kTemporaryFolder, 0) == 0 || name.find(kTemporaryFile) != std::string::npos) {
      stale.push_back(entry.path());
    }
  }
  for (const auto& path : stale) std::filesystem::remove_all(path, error);
}

Result<TemporaryFolder> TemporaryFolder::create(const std::filesystem::path& parent) {
  std::error_code error;
  const std::filesystem::path base = parent.empty() ? std::filesystem::temp_directory_path(error) : parent;
  if (error) return fail(Code::kOutputUnwritable, "no temporary folder: " + error.message());
  HTPIPE_CHECK_OK(make_folder(base));
  std::string name = (base / fmt::format("{}XXXXXX", kTemporaryFolder)).string();
  if (::mkdtemp(name.data()) == nullptr) return write_error(base, "cannot create a folder in it");
  return TemporaryFolder(name);
}

TemporaryFolder& TemporaryFolder::operator=(TemporaryFolder&& other) noexcept {
  std::swap(path_, other.path_);
  return *this;
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty()) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace htpipe
