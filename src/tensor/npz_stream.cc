#include "tensor/npz_stream.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/zip_records.h"
#include "tensor/npy.h"

namespace htpipe {
namespace {

std::uint32_t crc_of(std::uint32_t crc, Bytes bytes) {
  return static_cast<std::uint32_t>(::crc32_z(crc, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

tl::unexpected<Error> unwritable(const std::filesystem::path& path) {
  return fail(Error(Code::kOutputUnwritable, std::strerror(errno)).in_file(path.string()));
}

}  // namespace

Result<NpzStream> NpzStream::create(const std::filesystem::path& path, const std::vector<Array>& arrays) {
  if (path.has_parent_path()) HTPIPE_CHECK_OK(make_folder(path.parent_path()));
  std::string temporary = path.string() + ".tmp-XXXXXX";
  const int file = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return unwritable(path);
  NpzStream stream(path, std::move(temporary), file);
  std::set<std::string, std::less<>> names;
  std::uint64_t offset = 0;
  for (const Array& array : arrays) {
    const std::string name = array.name + ".npy";
    if (array.name.empty() || name.size() > 0xFFFF || !names.insert(name).second) {
      return fail(Error(Code::kDataFormat,
                        fmt::format("array name '{}' is empty, too long or given twice", array.name.substr(0, 80)))
                      .in_file(path.string()));
    }
    auto header = npy_header(array.dtype, array.shape);
    if (!header) return fail(std::move(header.error()).in_file(path.string()));
    const std::uint64_t data = TensorType{array.dtype, array.shape, std::nullopt}.size_bytes();
    Member member{name, offset, 0, 0, 0, header->size() + data, crc_of(0, as_bytes(*header))};
    const std::uint64_t start = offset + local_record({member.name, member.size, offset, 0}).size();
    HTPIPE_CHECK_OK(stream.write(as_bytes(*header), start));
    member.data_offset = member.next = start + header->size();
    member.end = offset = member.data_offset + data;
    stream.members_.push_back(std::move(member));
  }
  stream.directory_offset_ = offset;
  return stream;
}

NpzStream::NpzStream(NpzStream&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      file_(std::exchange(other.file_, -1)),
      members_(std::move(other.members_)),
      directory_offset_(other.directory_offset_) {}

NpzStream::~NpzStream() {
  if (file_ < 0) return;
  ::close(file_);
  ::unlink(temporary_.c_str());
}

Status NpzStream::write(Bytes bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file_, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return unwritable(path_);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

Status NpzStream::append(std::size_t array, Bytes bytes) {
  Member& member = members_.at(array);
  HTPIPE_CHECK(bytes.size() <= member.end - member.next, "more bytes than array " + member.name + " has");
  HTPIPE_CHECK_OK(write(bytes, member.next));
  member.next += bytes.size();
  member.crc32 = crc_of(member.crc32, bytes);
  return {};
}

Status NpzStream::finish() {
  std::string directory;
  for (const Member& member : members_) {
    HTPIPE_CHECK(member.next == member.end, "array " + member.name + " is not complete");
    const StoredEntry entry = {member.name, member.size, member.header_offset, member.crc32};
    HTPIPE_CHECK_OK(write(as_bytes(local_record(entry)), member.header_offset));
    directory += directory_record(entry);
  }
  const std::string end = directory + end_records(members_.size(), directory.size(), directory_offset_);
  HTPIPE_CHECK_OK(write(as_bytes(end), directory_offset_));
  if (::fchmod(file_, 0644) != 0 || ::fsync(file_) != 0) return unwritable(path_);
  const bool closed = ::close(std::exchange(file_, -1)) == 0;
  if (!closed || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int reason = errno;
    ::unlink(temporary_.c_str());
    errno = reason;
    return unwritable(path_);
  }
  return {};
}

}  // namespace htpipe
