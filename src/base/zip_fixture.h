// Test support: archives written by libzip, which is not ours, and changes to their bytes.
#pragma once

#include <gtest/gtest.h>
#include <zip.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace htpipe::test {

struct ZipMember {
  std::string name;
  std::string content;
  bool deflated = false;
};

/// The bytes of an archive of `members`, dated 1980-01-01.
inline std::string zip_bytes(const std::vector<ZipMember>& members, const std::string& comment = {}) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_buffer_create(nullptr, 0, 0, &error);
  zip_source_keep(source);
  zip_t* const zip = zip_open_from_source(source, ZIP_TRUNCATE, &error);
  EXPECT_NE(zip, nullptr) << zip_error_strerror(&error);
  for (const ZipMember& member : members) {
    zip_source_t* const content = zip_source_buffer(zip, member.content.data(), member.content.size(), 0);
    const zip_int64_t index = zip_file_add(zip, member.name.c_str(), content, ZIP_FL_ENC_UTF_8);
    EXPECT_GE(index, 0) << zip_strerror(zip);
    const auto at = static_cast<zip_uint64_t>(index);
    zip_set_file_compression(zip, at, member.deflated ? ZIP_CM_DEFLATE : ZIP_CM_STORE, 0);
    zip_file_set_dostime(zip, at, 0, 0x21, 0);
  }
  EXPECT_EQ(zip_set_archive_comment(zip, comment.data(), static_cast<zip_uint16_t>(comment.size())), 0);
  EXPECT_EQ(zip_close(zip), 0) << zip_strerror(zip);
  zip_source_open(source);
  zip_stat_t status;
  zip_source_stat(source, &status);
  std::string bytes(status.size, '\0');
  zip_source_read(source, bytes.data(), bytes.size());
  zip_source_close(source);
  zip_source_free(source);
  zip_error_fini(&error);
  return bytes;
}

/// `text` with every `from` replaced by `to`, which has the same size, so that all offsets stay right.
inline std::string patched(std::string text, std::string_view from, std::string_view to) {
  EXPECT_EQ(from.size(), to.size());
  std::size_t count = 0;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
    ++count;
  }
  EXPECT_GT(count, 0U) << "nothing to replace";
  return text;
}

/// Overwrites `size` bytes at `at` with a little-endian number.
inline std::string with_number(std::string text, std::size_t at, std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) text.at(at + i) = static_cast<char>((value >> (8 * i)) & 0xFF);
  return text;
}

/// Offset of the directory entry number `index` (from 0) and of the end record.
inline std::size_t central_at(const std::string& zip, std::size_t index) {
  std::size_t at = zip.find("PK\x01\x02");
  for (std::size_t i = 0; i < index; ++i) at = zip.find("PK\x01\x02", at + 4);
  EXPECT_NE(at, std::string::npos);
  return at;
}
inline std::size_t end_at(const std::string& zip) { return zip.rfind("PK\x05\x06"); }

}  // namespace htpipe::test
