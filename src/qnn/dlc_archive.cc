// Reads and writes the zip archive of a DLC. The vendor's writer leaves CRCs at zero and puts times and paths into its
// metadata; the vendor's reader takes only stored entries.
#include "qnn/dlc_archive.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/zip_reader.h"

namespace htpipe::qnn {
namespace {

constexpr std::string_view kMetadataPrefix = "dlc.metadata";
// Real software reads these fields, so they stay, with a value that does not change.
constexpr const char* kFixedTime = "1980-01-01 00:00:00 UTC";
constexpr std::uint32_t kLocalMagic = 0x04034b50;
constexpr std::uint32_t kCentralMagic = 0x02014b50;
constexpr std::uint32_t kEndMagic = 0x06054b50;
constexpr std::uint16_t kVersionNeeded = 20;
constexpr std::uint16_t kFixedDosDate = 0x21;  // 1980-01-01
constexpr std::uint64_t kMostMetadata = 1U << 20;

Error invalid(const MappedFile& file, std::string message) {
  return Error(Code::kDlcInvalid, std::move(message)).in_file(file.path().string());
}

template <typename T>
void put(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out += static_cast<char>((static_cast<std::uint64_t>(value) >> (8 * i)) & 0xFF);
}

/// A zip archive of stored entries with fixed times.
class StoredArchive {
 public:
  void add(std::string_view name, std::string_view data) {
    const auto crc = static_cast<std::uint32_t>(
        ::crc32_z(::crc32(0, nullptr, 0), reinterpret_cast<const Bytef*>(data.data()), data.size()));
    const std::uint64_t offset = bytes_.size();
    std::string common;
    put(common, kVersionNeeded);
    put(common, std::uint16_t{0});  // flags
    put(common, std::uint16_t{0});  // stored
    put(common, std::uint16_t{0});  // time
    put(common, kFixedDosDate);
    put(common, crc);
    put(common, static_cast<std::uint32_t>(data.size()));
    put(common, static_cast<std::uint32_t>(data.size()));
    put(common, static_cast<std::uint16_t>(name.size()));
    put(common, std::uint16_t{0});  // extra field
    put(bytes_, kLocalMagic);
    bytes_ += common;
    bytes_ += name;
    bytes_ += data;
    put(directory_, kCentralMagic);
    put(directory_, kVersionNeeded);
    directory_ += common;
    put(directory_, std::uint16_t{0});  // comment
    put(directory_, std::uint16_t{0});  // disk
    put(directory_, std::uint16_t{0});  // internal attributes
    put(directory_, std::uint32_t{0});  // external attributes
    put(directory_, static_cast<std::uint32_t>(offset));
    directory_ += name;
    ++count_;
  }

  /// The whole archive; call once.
  std::string finish() {
    const std::uint64_t offset = bytes_.size();
    bytes_ += directory_;
    put(bytes_, kEndMagic);
    put(bytes_, std::uint32_t{0});  // disks
    put(bytes_, count_);
    put(bytes_, count_);
    put(bytes_, static_cast<std::uint32_t>(directory_.size()));
    put(bytes_, static_cast<std::uint32_t>(offset));
    put(bytes_, std::uint16_t{0});  // comment
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
  std::string directory_;
  std::uint16_t count_ = 0;
};

void forget_time_and_place(Json& json) {
  if (json.is_array()) {
    for (Json& item : json) forget_time_and_place(item);
  }
  if (!json.is_object()) return;
  for (auto& [key, value] : json.items()) {
    const bool is_path = value.is_string() && value.get<std::string>().find('/') != std::string::npos;
    if (key == "timestamp") {
      value = kFixedTime;
    } else if (is_path) {
      value = std::filesystem::path(value.get<std::string>()).filename().string();
    } else {
      forget_time_and_place(value);
    }
  }
}

std::vector<ZipEntry> in_file_order(const ZipReader& zip) {
  std::vector<ZipEntry> entries = zip.entries();
  std::sort(entries.begin(), entries.end(),
            [](const ZipEntry& a, const ZipEntry& b) { return a.header_offset < b.header_offset; });
  return entries;
}

Result<ZipReader> open(const std::shared_ptr<const MappedFile>& file) {
  auto zip = ZipReader::from_bytes(file->bytes(), file, file->path().string());
  if (!zip) return fail(invalid(*file, zip.error().message));
  return zip;
}

Result<std::string_view> stored_text(const ZipReader& zip, const ZipEntry& entry, const MappedFile& file) {
  const auto bytes = zip.view(entry);
  if (!bytes) return fail(invalid(file, bytes.error().message));
  return std::string_view(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

}  // namespace

Result<std::string> normalise_dlc(const std::shared_ptr<const MappedFile>& file, std::string_view provenance) {
  // Offsets are 32 bits here; the vendor's API has that limit for one tensor anyway.
  if (file->bytes().size() + provenance.size() + (1U << 16) > std::numeric_limits<std::uint32_t>::max()) {
    return fail(invalid(*file, "is larger than 4 GiB"));
  }
  HTPIPE_TRY(const ZipReader zip, open(file));
  StoredArchive archive;
  for (const ZipEntry& entry : in_file_order(zip)) {
    HTPIPE_TRY(const std::string_view content, stored_text(zip, entry, *file));
    if (entry.name.substr(0, kMetadataPrefix.size()) != kMetadataPrefix || content.size() > kMostMetadata) {
      archive.add(entry.name, content);
      continue;
    }
    auto json = parse_json(content);
    if (!json) return fail(invalid(*file, fmt::format("entry {}: {}", entry.name, json.error().message)));
    forget_time_and_place(*json);
    archive.add(entry.name, to_text(*json));
  }
  if (!provenance.empty()) archive.add(kProvenanceEntry, provenance);
  return archive.finish();
}

Result<DlcEntries> list_dlc(const std::shared_ptr<const MappedFile>& file) {
  HTPIPE_TRY(const ZipReader zip, open(file));
  DlcEntries out;
  for (const ZipEntry& entry : in_file_order(zip)) {
    out.names.emplace_back(entry.name);
    if (entry.crc32 != 0) {
      const Status intact = zip.check_crc(entry);
      if (!intact) return fail(invalid(*file, intact.error().message));
    }
    if (entry.name != kProvenanceEntry) continue;
    HTPIPE_TRY(const std::string_view text, stored_text(zip, entry, *file));
    out.provenance = text;
  }
  return out;
}

}  // namespace htpipe::qnn
