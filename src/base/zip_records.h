// The records of a zip archive with stored entries, as bytes: what stands around the data.
// Invariant: the same entries give the same bytes; everything is dated 1980-01-01; zip64 only where it is needed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace htpipe {

struct StoredEntry {
  std::string_view name;
  std::uint64_t size = 0;
  std::uint64_t header_offset = 0;
  std::uint32_t crc32 = 0;
};

/// What stands before an entry's data. Its length depends on name and size only.
[[nodiscard]] std::string local_record(const StoredEntry& entry);
/// The entry in the directory.
[[nodiscard]] std::string directory_record(const StoredEntry& entry);
/// What stands behind a directory of `entries` entries that takes `size` bytes and begins at `offset`.
[[nodiscard]] std::string end_records(std::uint64_t entries, std::uint64_t size, std::uint64_t offset);

}  // namespace htpipe
