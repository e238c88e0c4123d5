// Reads zip directories that may be hostile. Every number from the file is compared with the space that is there before
// it is used, in 64-bit arithmetic that cannot wrap: `fits` is the only way an offset becomes a view.
#include "base/zip_reader.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

namespace htpipe {
namespace {

constexpr std::size_t kEndSize = 22;
constexpr std::size_t kZip64EndSize = 56;
constexpr std::size_t kZip64LocatorSize = 20;
constexpr std::size_t kCentralSize = 46;
constexpr std::size_t kLocalSize = 30;
constexpr std::uint32_t kEndMagic = 0x06054b50;
constexpr std::uint32_t kZip64EndMagic = 0x06064b50;
constexpr std::uint32_t kZip64LocatorMagic = 0x07064b50;
constexpr std::uint32_t kCentralMagic = 0x02014b50;
constexpr std::uint32_t kLocalMagic = 0x04034b50;
constexpr std::uint16_t kFlagEncrypted = 1U << 0;
constexpr std::uint16_t kFlagDescriptor = 1U << 3;
constexpr std::uint16_t kStored = 0;
constexpr std::uint16_t kDeflated = 8;
constexpr std::uint32_t kSee64 = 0xFFFFFFFF;
constexpr std::uint16_t kSee64Short = 0xFFFF;
/// Deflate cannot pack better than 1032 to 1.
constexpr std::uint64_t kBestRatio = 1032;

bool fits(std::uint64_t space, std::uint64_t offset, std::uint64_t size) {
  return offset <= space && size <= space - offset;
}

/// Little-endian unsigned integer; the caller has checked the bounds.
template <typename T>
T load(Bytes bytes, std::uint64_t offset) {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) {
    value =
        static_cast<T>((static_cast<std::uint64_t>(value) << 8) | std::to_integer<std::uint64_t>(bytes[offset + i]));
  }
  return value;
}

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

tl::unexpected<Error> corrupt(std::string message) { return fail(Code::kZipCorrupt, std::move(message)); }

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t count = 0;
};

/// The one end record whose comment ends with the file. A comment that holds a second one could show other entries to
/// other readers, so that is an error.
Result<std::uint64_t> find_end(Bytes bytes) {
  std::optional<std::uint64_t> found;
  const std::uint64_t furthest = std::min<std::uint64_t>(bytes.size(), kEndSize + 0xFFFF);
  for (std::uint64_t distance = kEndSize; distance <= furthest; ++distance) {
    const std::uint64_t at = bytes.size() - distance;
    if (load<std::uint32_t>(bytes, at) != kEndMagic) continue;
    if (load<std::uint16_t>(bytes, at + 20) != distance - kEndSize) continue;
    if (found) return corrupt("the archive has two end records");
    found = at;
  }
  if (found) return *found;
  if (bytes.size() >= 4 && load<std::uint32_t>(bytes, 0) == kLocalMagic) {
    return fail(Code::kFileTruncated, "the archive has no end record at the end of the file");
  }
  return fail(Code::kNotAZip, bytes.empty() ? "the file is empty" : "the file has no zip end record");
}

Result<Directory> read_zip64_end(Bytes bytes, std::uint64_t end, std::uint64_t& limit) {
  const std::uint64_t locator = end - kZip64LocatorSize;
  const auto at = load<std::uint64_t>(bytes, locator + 8);
  if (load<std::uint32_t>(bytes, locator + 4) != 0 || load<std::uint32_t>(bytes, locator + 16) > 1) {
    return corrupt("the archive spans several disks");
  }
  if (!fits(locator, at, kZip64EndSize) || load<std::uint32_t>(bytes, at) != kZip64EndMagic ||
      load<std::uint64_t>(bytes, at + 4) != locator - at - 12) {
    return corrupt("the zip64 end record is not where the locator says");
  }
  const auto count = load<std::uint64_t>(bytes, at + 32);
  if (load<std::uint32_t>(bytes, at + 16) != 0 || load<std::uint32_t>(bytes, at + 20) != 0 ||
      load<std::uint64_t>(bytes, at + 24) != count) {
    return corrupt("the archive spans several disks");
  }
  limit = at;
  return Directory{load<std::uint64_t>(bytes, at + 48), load<std::uint64_t>(bytes, at + 40), count};
}

Result<Directory> read_end(Bytes bytes) {
  HTPIPE_TRY(const std::uint64_t end, find_end(bytes));
  const auto count = load<std::uint16_t>(bytes, end + 10);
  const Directory classic{load<std::uint32_t>(bytes, end + 16), load<std::uint32_t>(bytes, end + 12), count};
  Directory directory = classic;
  std::uint64_t limit = end;
  if (end >= kZip64LocatorSize && load<std::uint32_t>(bytes, end - kZip64LocatorSize) == kZip64LocatorMagic) {
    HTPIPE_TRY(directory, read_zip64_end(bytes, end, limit));
    const bool agree = (classic.offset == kSee64 || classic.offset == directory.offset) &&
                       (classic.size == kSee64 || classic.size == directory.size) &&
                       (classic.count == kSee64Short || classic.count == directory.count);
    if (!agree) return corrupt("the two end records contradict each other");
  } else {
    const auto disk = load<std::uint16_t>(bytes, end + 4);
    const auto first_disk = load<std::uint16_t>(bytes, end + 6);
    if (disk != 0 || first_disk != 0 || load<std::uint16_t>(bytes, end + 8) != count) {
      return corrupt("the archive spans several disks");
    }
  }
  if (!fits(limit, directory.offset, directory.size) || directory.offset + directory.size != limit) {
    return corrupt(fmt::format("the directory ({} bytes at {}) does not end at the end record ({})", directory.size,
                               directory.offset, limit));
  }
  if (directory.count > directory.size / kCentralSize) {
    return corrupt(fmt::format("the directory of {} bytes cannot hold {} entries", directory.size, directory.count));
  }
  return directory;
}

Status check_name(std::string_view name) {
  const auto unsafe = [name](std::string_view why) {
    std::string shown;
    for (const char c : name.substr(0, 200)) {
      const auto code = static_cast<unsigned char>(c);
      shown += code < 0x20 || code >= 0x7F ? fmt::format("\\x{:02x}", static_cast<unsigned>(code)) : std::string(1, c);
    }
    return fail(Code::kZipUnsafeEntry, fmt::format("entry '{}' {}", shown, why));
  };
  if (name.empty()) return unsafe("has no name");
  for (const char c : name) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return unsafe("has a control character in its name");
    if (c == '\\') return unsafe("has a backslash in its name");
  }
  if (name.front() == '/') return unsafe("has an absolute name");
  if (name.size() >= 2 && name[1] == ':') return unsafe("names a drive");
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t slash = std::min(name.find('/', begin), name.size());
    const std::string_view part = name.substr(begin, slash - begin);
    if (part == ".." || part == ".") return unsafe("has '..' or '.' in its name");
    if (part.empty() && slash != name.size()) return unsafe("has an empty folder in its name");
    begin = slash + 1;
  }
  return {};
}

/// Replaces the saturated fields of `entry` by those of the zip64 extra field.
Status read_zip64_extra(Bytes extra, ZipEntry& entry) {
  const bool wants_size = entry.size == kSee64;
  const bool wants_packed = entry.packed_size == kSee64;
  const bool wants_offset = entry.header_offset == kSee64;
  if (!wants_size && !wants_packed && !wants_offset) return {};
  while (extra.size() >= 4) {
    const auto id = load<std::uint16_t>(extra, 0);
    const auto size = load<std::uint16_t>(extra, 2);
    if (size > extra.size() - 4) break;
    Bytes field = extra.subspan(4, size);
    extra = extra.subspan(4 + std::size_t{size});
    if (id != 1) continue;
    bool complete = true;
    const auto take = [&field, &complete](bool wanted, std::uint64_t& value) {
      if (!wanted) return;
      if (field.size() < 8) {
        complete = false;
        return;
      }
      value = load<std::uint64_t>(field, 0);
      field = field.subspan(8);
    };
    take(wants_size, entry.size);
    take(wants_packed, entry.packed_size);
    take(wants_offset, entry.header_offset);
    if (!complete) break;
    return {};
  }
  return corrupt(fmt::format("entry '{}' lacks its zip64 sizes", entry.name));
}

/// Compares the local header with the directory and finds where the data start.
Status read_local_header(Bytes bytes, std::uint64_t directory_offset, std::uint16_t flags, ZipEntry& entry) {
  const std::uint64_t at = entry.header_offset;
  if (!fits(directory_offset, at, kLocalSize) || load<std::uint32_t>(bytes, at) != kLocalMagic) {
    return corrupt(fmt::format("entry '{}' has no local header at offset {}", entry.name, at));
  }
  const auto name_size = load<std::uint16_t>(bytes, at + 26);
  const auto extra_size = load<std::uint16_t>(bytes, at + 28);
  const std::uint64_t name_at = at + kLocalSize;
  if (!fits(directory_offset, name_at, std::uint64_t{name_size} + extra_size)) {
    return corrupt(fmt::format("the local header of entry '{}' is cut off", entry.name));
  }
  const auto local_flags = load<std::uint16_t>(bytes, at + 6);
  const auto packed = load<std::uint32_t>(bytes, at + 18);
  const auto size = load<std::uint32_t>(bytes, at + 22);
  const bool sizes_known = (local_flags & kFlagDescriptor) == 0;
  const bool agree = text_of(bytes.subspan(name_at, name_size)) == entry.name &&
                     load<std::uint16_t>(bytes, at + 8) == entry.method &&
                     ((local_flags ^ flags) & (kFlagEncrypted | kFlagDescriptor)) == 0 &&
                     (!sizes_known || packed == kSee64 || packed == entry.packed_size) &&
                     (!sizes_known || size == kSee64 || size == entry.size);
  if (!agree) return corrupt(fmt::format("the local header of entry '{}' contradicts the directory", entry.name));
  entry.data_offset = name_at + name_size + extra_size;
  if (!fits(directory_offset, entry.data_offset, entry.packed_size)) {
    return corrupt(
        fmt::format("entry '{}' declares {} bytes, more than the archive has", entry.name, entry.packed_size));
  }
  return {};
}

Result<std::vector<ZipEntry>> read_entries(Bytes bytes, const Directory& directory) {
  std::vector<ZipEntry> entries;
  entries.reserve(directory.count);
  const std::uint64_t end = directory.offset + directory.size;
  std::uint64_t at = directory.offset;
  for (std::uint64_t i = 0; i < directory.count; ++i) {
    if (!fits(end, at, kCentralSize) || load<std::uint32_t>(bytes, at) != kCentralMagic) {
      return corrupt(fmt::format("directory entry {} of {} is missing", i + 1, directory.count));
    }
    const auto name_size = load<std::uint16_t>(bytes, at + 28);
    const auto extra_size = load<std::uint16_t>(bytes, at + 30);
    const auto comment_size = load<std::uint16_t>(bytes, at + 32);
    const std::uint64_t variable = std::uint64_t{name_size} + extra_size + comment_size;
    if (!fits(end, at + kCentralSize, variable)) {
      return corrupt(fmt::format("directory entry {} of {} is cut off", i + 1, directory.count));
    }
    ZipEntry entry;
    entry.name = text_of(bytes.subspan(at + kCentralSize, name_size));
    entry.method = load<std::uint16_t>(bytes, at + 10);
    entry.crc32 = load<std::uint32_t>(bytes, at + 16);
    entry.packed_size = load<std::uint32_t>(bytes, at + 20);
    entry.size = load<std::uint32_t>(bytes, at + 24);
    entry.header_offset = load<std::uint32_t>(bytes, at + 42);
    HTPIPE_CHECK_OK(check_name(entry.name));
    const auto flags = load<std::uint16_t>(bytes, at + 8);
    if ((flags & kFlagEncrypted) != 0) return corrupt(fmt::format("entry '{}' is encrypted", entry.name));
    const auto disk = load<std::uint16_t>(bytes, at + 34);
    if (disk != 0 && disk != kSee64Short) return corrupt(fmt::format("entry '{}' is on another disk", entry.name));
    HTPIPE_CHECK_OK(read_zip64_extra(bytes.subspan(at + kCentralSize + name_size, extra_size), entry));
    HTPIPE_CHECK_OK(read_local_header(bytes, directory.offset, flags, entry));
    if (entry.method == kStored && entry.size != entry.packed_size) {
      return corrupt(fmt::format("stored entry '{}' has two different sizes", entry.name));
    }
    entries.push_back(entry);
    at += kCentralSize + variable;
  }
  if (at != end) return corrupt("the directory has bytes after its last entry");
  return entries;
}

Status check_overlaps(std::vector<ZipEntry>& entries) {
  std::sort(entries.begin(), entries.end(),
            [](const ZipEntry& a, const ZipEntry& b) { return a.header_offset < b.header_offset; });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (entries[i - 1].data_offset + entries[i - 1].packed_size > entries[i].header_offset) {
      return corrupt(fmt::format("entries '{}' and '{}' overlap", entries[i - 1].name, entries[i].name));
    }
  }
  return {};
}

Status check_duplicates(std::vector<ZipEntry>& entries) {
  std::sort(entries.begin(), entries.end(), [](const ZipEntry& a, const ZipEntry& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (entries[i - 1].name == entries[i].name) {
      return corrupt(fmt::format("entry '{}' occurs twice", entries[i].name));
    }
  }
  return {};
}

std::uint32_t crc_of(Bytes bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), static_cast<z_size_t>(bytes.size())));
}

/// Inflates a raw deflate stream that must give exactly `out.size()` bytes.
bool inflate_exactly(Bytes packed, std::vector<std::byte>& out) {
  z_stream stream{};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) return false;
  constexpr std::uint64_t kStep = std::numeric_limits<uInt>::max();
  std::uint64_t taken = 0;
  std::uint64_t made = 0;
  int code = Z_OK;
  std::byte beyond{};  // room for one byte too many, so that a stream that is too long shows
  while (code == Z_OK) {
    const std::uint64_t in = std::min(kStep, packed.size() - taken);
    const bool full = made == out.size();
    const std::uint64_t room = full ? 1 : std::min(kStep, out.size() - made);
    // zlib's interface lacks const, it only reads.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + taken));
    stream.avail_in = static_cast<uInt>(in);
    stream.next_out = reinterpret_cast<Bytef*>(full ? &beyond : out.data() + made);
    stream.avail_out = static_cast<uInt>(room);
    code = ::inflate(&stream, Z_NO_FLUSH);
    taken += in - stream.avail_in;
    const std::uint64_t gained = room - stream.avail_out;
    if (full && gained > 0) break;
    made += gained;
    if (code == Z_OK && gained == 0 && stream.avail_in == in) break;
  }
  ::inflateEnd(&stream);
  return code == Z_STREAM_END && made == out.size() && taken == packed.size();
}

}  // namespace

Result<ZipReader> ZipReader::open(const std::filesystem::path& path) {
  HTPIPE_TRY(auto file, MappedFile::open(path));
  const Bytes bytes = file->bytes();
  return from_bytes(bytes, std::move(file), path.string());
}

Result<ZipReader> ZipReader::from_bytes(Bytes bytes, std::shared_ptr<const void> owner, std::string file) {
  const auto read = [bytes]() -> Result<std::vector<ZipEntry>> {
    HTPIPE_TRY(const Directory directory, read_end(bytes));
    HTPIPE_TRY(auto entries, read_entries(bytes, directory));
    HTPIPE_CHECK_OK(check_overlaps(entries));
    HTPIPE_CHECK_OK(check_duplicates(entries));
    return entries;
  };
  auto entries = read();
  if (!entries) return fail(std::move(entries.error()).in_file(file));
  ZipReader reader;
  reader.bytes_ = bytes;
  reader.owner_ = std::move(owner);
  reader.file_ = std::move(file);
  reader.entries_ = std::move(*entries);
  return reader;
}

const ZipEntry* ZipReader::find(std::string_view name) const {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const ZipEntry& entry, std::string_view key) { return entry.name < key; });
  return at != entries_.end() && at->name == name ? &*at : nullptr;
}

Result<ZipEntry> ZipReader::entry(std::string_view name) const {
  if (const ZipEntry* found = find(name)) return *found;
  return fail(Error(Code::kZipEntryMissing, fmt::format("no entry '{}'", name)).in_file(file_));
}

Result<Bytes> ZipReader::view(const ZipEntry& entry) const {
  if (entry.method == kStored) return bytes_.subspan(entry.data_offset, entry.size);
  return fail(Error(Code::kZipCompressed, fmt::format("entry '{}' is compressed (method {})", entry.name, entry.method))
                  .in_file(file_));
}

Result<std::vector<std::byte>> ZipReader::read(const ZipEntry& entry, std::uint64_t size_limit) const {
  const auto bad = [this, &entry](std::string_view why) {
    return fail(Error(Code::kZipCorrupt, fmt::format("entry '{}' {}", entry.name, why)).in_file(file_));
  };
  if (entry.size > size_limit) {
    return bad(fmt::format("declares {} bytes, more than the limit of {}", entry.size, size_limit));
  }
  const Bytes packed = bytes_.subspan(entry.data_offset, entry.packed_size);
  std::vector<std::byte> content;
  if (entry.method == kDeflated) {
    if (entry.size / kBestRatio > entry.packed_size) return bad("declares more bytes than it can hold");
    content.resize(entry.size);
    if (!inflate_exactly(packed, content)) return bad("has compressed data that cannot be read");
  } else {
    HTPIPE_TRY(const Bytes stored, view(entry));
    content.assign(stored.begin(), stored.end());
  }
  if (crc_of(content) != entry.crc32) return bad("has another CRC-32 than the directory says");
  return content;
}

Status ZipReader::check_crc(const ZipEntry& entry) const {
  HTPIPE_TRY(const Bytes stored, view(entry));
  if (crc_of(stored) == entry.crc32) return {};
  return fail(Error(Code::kZipCorrupt, fmt::format("entry '{}' has another CRC-32 than the directory says", entry.name))
                  .in_file(file_));
}

}  // namespace htpipe
