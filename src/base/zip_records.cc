#include "base/zip_records.h"

#include <algorithm>

namespace htpipe {
namespace {

constexpr std::uint64_t kFull32 = 0xFFFFFFFF;  ///< "see the zip64 field"
constexpr std::uint64_t kFull16 = 0xFFFF;
constexpr std::uint64_t kPlain = 20;  ///< version that reads the record
constexpr std::uint64_t kZip64 = 45;

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>((value >> (8 * i)) & 0xFF);
}

/// What the local record and the directory share: version to name length, without the length of the extra field.
std::string common_part(const StoredEntry& entry, bool zip64) {
  std::string out;
  put(out, zip64 ? kZip64 : kPlain, 2);
  put(out, 0, 2);     // flags
  put(out, 0, 2);     // stored
  put(out, 0, 2);     // 00:00:00
  put(out, 0x21, 2);  // 1980-01-01
  put(out, entry.crc32, 4);
  const std::uint64_t size = std::min(entry.size, kFull32);
  put(out, size, 4);
  put(out, size, 4);
  put(out, entry.name.size(), 2);
  return out;
}

std::string zip64_field(const std::string& numbers) {
  std::string out;
  if (numbers.empty()) return out;
  put(out, 1, 2);
  put(out, numbers.size(), 2);
  return out + numbers;
}

}  // namespace

std::string local_record(const StoredEntry& entry) {
  std::string numbers;
  if (entry.size >= kFull32) {
    put(numbers, entry.size, 8);
    put(numbers, entry.size, 8);
  }
  const std::string extra = zip64_field(numbers);
  std::string out = "PK\x03\x04" + common_part(entry, !extra.empty());
  put(out, extra.size(), 2);
  out += entry.name;
  return out + extra;
}

std::string directory_record(const StoredEntry& entry) {
  std::string numbers;
  if (entry.size >= kFull32) {
    put(numbers, entry.size, 8);
    put(numbers, entry.size, 8);
  }
  if (entry.header_offset >= kFull32) put(numbers, entry.header_offset, 8);
  const std::string extra = zip64_field(numbers);
  std::string out = "PK\x01\x02";
  put(out, extra.empty() ? kPlain : kZip64, 2);
  out += common_part(entry, !extra.empty());
  put(out, extra.size(), 2);
  put(out, 0, 2);  // comment
  put(out, 0, 2);  // disk
  put(out, 0, 2);  // internal attributes
  put(out, 0, 4);  // external attributes
  put(out, std::min(entry.header_offset, kFull32), 4);
  out += entry.name;
  return out + extra;
}

std::string end_records(std::uint64_t entries, std::uint64_t size, std::uint64_t offset) {
  std::string out;
  if (entries >= kFull16 || size >= kFull32 || offset >= kFull32) {
    out += "PK\x06\x06";
    put(out, 44, 8);  // bytes that follow
    put(out, kZip64, 2);
    put(out, kZip64, 2);
    put(out, 0, 4);  // disks
    put(out, 0, 4);
    put(out, entries, 8);
    put(out, entries, 8);
    put(out, size, 8);
    put(out, offset, 8);
    out += "PK\x06\x07";
    put(out, 0, 4);
    put(out, offset + size, 8);
    put(out, 1, 4);
  }
  out += "PK\x05\x06";
  put(out, 0, 4);  // disks
  put(out, std::min(entries, kFull16), 2);
  put(out, std::min(entries, kFull16), 2);
  put(out, std::min(size, kFull32), 4);
  put(out, std::min(offset, kFull32), 4);
  put(out, 0, 2);
  return out;
}

}  // namespace htpipe
