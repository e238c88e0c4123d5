// Read-only zip archives in memory: the central directory, views of stored entries, inflated copies of others.
// Invariant: after open() every entry lies inside the archive, overlaps no other and has a name that stays inside a
// folder; nothing is ever written to disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/io.h"
#include "base/result.h"

namespace htpipe {

/// One entry of the central directory.
struct ZipEntry {
  std::string_view name;  ///< as in the archive, '/' between folders; lives as long as the archive's bytes
  std::uint64_t size = 0;
  std::uint64_t packed_size = 0;
  std::uint64_t header_offset = 0;
  std::uint64_t data_offset = 0;
  std::uint32_t crc32 = 0;
  std::uint16_t method = 0;  ///< 0 stored, 8 deflated
};

/// A zip archive (APPNOTE 6.3, zip64 included, one disk, nothing before the first entry, no encryption).
class ZipReader {
 public:
  /// Maps the file. Errors: as MappedFile::open and from_bytes.
  static Result<ZipReader> open(const std::filesystem::path& path);
  /// Reads the directory of an archive whose bytes `owner` keeps alive; `file` is named in errors.
  /// Errors: not-a-zip; file-truncated (starts like a zip, has no end record); zip-corrupt (contradictions, duplicate
  /// names, overlaps, encryption); zip-unsafe-entry (absolute, "..", backslash, control characters).
  static Result<ZipReader> from_bytes(Bytes bytes, std::shared_ptr<const void> owner, std::string file);

  /// All entries, sorted by name.
  [[nodiscard]] const std::vector<ZipEntry>& entries() const { return entries_; }
  /// nullptr when there is none.
  [[nodiscard]] const ZipEntry* find(std::string_view name) const;
  /// Errors: zip-entry-missing.
  [[nodiscard]] Result<ZipEntry> entry(std::string_view name) const;

  /// The bytes of a stored entry inside the archive, without a copy and without a CRC check.
  /// Errors: zip-compressed.
  [[nodiscard]] Result<Bytes> view(const ZipEntry& entry) const;
  /// A copy of a stored or deflated entry; the CRC is checked. Errors: zip-compressed (another method), zip-corrupt
  /// (also when the entry declares more than `size_limit` bytes, before anything is allocated).
  [[nodiscard]] Result<std::vector<std::byte>> read(const ZipEntry& entry, std::uint64_t size_limit) const;
  /// Compares the CRC-32 of a stored entry with the directory. Errors: zip-compressed, zip-corrupt.
  [[nodiscard]] Status check_crc(const ZipEntry& entry) const;

  [[nodiscard]] const std::shared_ptr<const void>& owner() const { return owner_; }
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  ZipReader() = default;
  Bytes bytes_;
  std::shared_ptr<const void> owner_;
  std::string file_;
  std::vector<ZipEntry> entries_;
};

}  // namespace htpipe
