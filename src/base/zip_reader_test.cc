// Archives come from libzip; the hostile ones are its archives with single fields changed.
#include "base/zip_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

#include "base/zip_fixture.h"

namespace htpipe {
namespace {

using test::central_at;
using test::end_at;
using test::patched;
using test::with_number;
using test::zip_bytes;

std::string_view text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

Result<ZipReader> read(const std::string& zip) { return ZipReader::from_bytes(as_bytes(zip), nullptr, "test.zip"); }

std::string error_word(const std::string& zip) {
  const auto reader = read(zip);
  return reader ? "success" : std::string(word(reader.error().code));
}

std::string two_files() { return zip_bytes({{"m/aa", "first file"}, {"m/bb", "second"}}); }

TEST(ZipReader, ViewsStoredEntriesWithoutACopy) {
  const std::string zip = two_files();
  const auto reader = read(zip);
  ASSERT_TRUE(reader) << reader.error().summary();
  ASSERT_EQ(reader->entries().size(), 2U);
  const auto entry = reader->entry("m/bb");
  ASSERT_TRUE(entry);
  EXPECT_TRUE(reader->check_crc(*entry));
  const auto view = reader->view(*entry);
  ASSERT_TRUE(view);
  EXPECT_EQ(text(*view), "second");
  EXPECT_EQ(reinterpret_cast<const char*>(view->data()), zip.data() + zip.find("second"));
  EXPECT_EQ(reader->entry("m/cc").error().code, Code::kZipEntryMissing);
}

TEST(ZipReader, InflatesOnlyOnRequest) {
  std::string content;
  for (int i = 0; i < 50000; ++i) content += static_cast<char>('a' + i % 7 * (i % 11));
  const std::string zip = zip_bytes({{"m/deflated", content, true}, {"m/empty", "", true}, {"m/stored", content}});
  const auto reader = read(zip);
  ASSERT_TRUE(reader) << reader.error().summary();
  for (const auto* name : {"m/deflated", "m/stored"}) {
    const auto copy = reader->read(*reader->find(name), content.size());
    ASSERT_TRUE(copy) << copy.error().summary();
    EXPECT_EQ(text(*copy), content);
  }
  EXPECT_LT(reader->find("m/deflated")->packed_size, content.size());
  EXPECT_EQ(reader->view(*reader->find("m/deflated")).error().code, Code::kZipCompressed);
  EXPECT_EQ(reader->read(*reader->find("m/deflated"), content.size() - 1).error().code, Code::kZipCorrupt);
  EXPECT_TRUE(reader->read(*reader->find("m/empty"), 0));
}

TEST(ZipReader, RefusesDeflatedDataThatGiveAnotherSize) {
  const std::string content(1000, 'x');
  const std::string zip = zip_bytes({{"m/deflated", content, true}});
  const std::size_t local = zip.find("PK\x03\x04");
  for (const std::uint64_t size : {std::uint64_t{999}, std::uint64_t{1001}, std::uint64_t{1} << 31}) {
    std::string changed = with_number(zip, central_at(zip, 0) + 24, size, 4);
    changed = with_number(changed, local + 22, size, 4);
    const auto reader = read(changed);
    ASSERT_TRUE(reader) << reader.error().summary();
    EXPECT_EQ(reader->read(reader->entries()[0], std::uint64_t{1} << 40).error().code, Code::kZipCorrupt) << size;
  }
}

TEST(ZipReader, ReadsZip64Directories) {
  std::vector<test::ZipMember> members;
  for (int i = 0; i < 66000; ++i) members.push_back({"m/" + std::to_string(i), i % 1000 == 0 ? "x" : ""});
  const std::string zip = zip_bytes(members);
  ASSERT_NE(zip.rfind("PK\x06\x06"), std::string::npos) << "libzip wrote no zip64 record";
  const auto reader = read(zip);
  ASSERT_TRUE(reader) << reader.error().summary();
  EXPECT_EQ(reader->entries().size(), members.size());
  EXPECT_EQ(text(*reader->view(*reader->find("m/65000"))), "x");
  const std::size_t end64 = zip.rfind("PK\x06\x06");
  EXPECT_EQ(error_word(with_number(zip, end64 + 32, std::uint64_t{1} << 60, 8)), "zip-corrupt");
  EXPECT_EQ(error_word(with_number(zip, end64 + 48, ~std::uint64_t{0}, 8)), "zip-corrupt");
  EXPECT_EQ(error_word(with_number(zip, zip.rfind("PK\x06\x07") + 8, ~std::uint64_t{0} - 3, 8)), "zip-corrupt");
}

TEST(ZipReader, RefusesWhatIsNoZip) {
  EXPECT_EQ(error_word(""), "not-a-zip");
  EXPECT_EQ(error_word("PK"), "not-a-zip");
  EXPECT_EQ(error_word(std::string(100000, 'P')), "not-a-zip");
  EXPECT_EQ(error_word(two_files() + "x"), "file-truncated");
  EXPECT_EQ(error_word("MZ" + two_files()), "zip-corrupt");
}

TEST(ZipReader, EveryTruncationIsAnError) {
  const std::string zip = two_files();
  for (std::size_t size = 0; size < zip.size(); ++size) {
    const std::string expected = size < 4 ? "not-a-zip" : "file-truncated";
    EXPECT_EQ(error_word(zip.substr(0, size)), expected) << size;
  }
}

TEST(ZipReader, RefusesUnsafeNames) {
  const std::string zip = two_files();
  using namespace std::string_literals;
  for (const std::string& name :
       {"../x"s, "m/.."s, "/abc"s, "m\\aa"s, "C:ab"s, "m\0aa"s, "m//a"s, "./aa"s, "m/\x01t"s, "m/./"s}) {
    EXPECT_EQ(error_word(patched(zip, "m/aa", name)), "zip-unsafe-entry") << name;
  }
  for (const std::string& name : {"..ab"s, "a..b"s, ".m/a"s, "m/a/"s}) {
    EXPECT_EQ(error_word(patched(zip, "m/aa", name)), "success") << name;
  }
}

TEST(ZipReader, RefusesDuplicateNames) { EXPECT_EQ(error_word(patched(two_files(), "m/bb", "m/aa")), "zip-corrupt"); }

TEST(ZipReader, RefusesNumbersThatContradict) {
  const std::string zip = two_files();
  const std::size_t first = central_at(zip, 0);
  const std::size_t end = end_at(zip);
  const std::uint64_t directory = central_at(zip, 0);
  struct Change {
    const char* what;
    std::size_t at;
    std::uint64_t value;
    std::size_t size;
  };
  for (const Change& change : std::vector<Change>{
           {"stored entry beyond the archive, packed", first + 20, 0x7FFFFFFF, 4},
           {"stored entry of two sizes", first + 24, 11, 4},
           {"zip64 size without its field", first + 24, 0xFFFFFFFF, 4},
           {"header offset beyond the file", first + 42, 0xFFFFFFF0, 4},
           {"header offset inside the directory", first + 42, directory, 4},
           {"header offset of no header", first + 42, 1, 4},
           {"another method than the local header", first + 10, 8, 2},
           {"encrypted", first + 8, 1, 2},
           {"another disk", first + 34, 1, 2},
           {"name longer than the directory", first + 28, 0xFFFF, 2},
           {"comment longer than the directory", first + 32, 0xFFFF, 2},
           {"no signature of the second entry", central_at(zip, 1), 0, 4},
           {"absurd count", end + 10, 0xFFFF, 2},
           {"count of one", end + 10, 1, 2},
           {"directory offset beyond the file", end + 16, 0xFFFFFFF0, 4},
           {"directory size beyond the file", end + 12, 0xFFFFFFF0, 4},
           {"directory that ends early", end + 12, 46, 4},
           {"disk number", end + 4, 1, 2},
       }) {
    EXPECT_EQ(error_word(with_number(zip, change.at, change.value, change.size)), "zip-corrupt") << change.what;
  }
  std::string local_name = zip;
  local_name[local_name.find("m/aa")] = 'n';
  EXPECT_EQ(error_word(local_name), "zip-corrupt");
  EXPECT_EQ(error_word(with_number(zip, 28, 0xFFFF, 2)), "zip-corrupt") << "local extra field beyond the archive";
}

TEST(ZipReader, RefusesOverlappingEntries) {
  // The first entry's data hold a complete local entry; the directory is made to point into them.
  const std::string inner = zip_bytes({{"m/bb", "second"}});
  const std::string hidden = inner.substr(0, central_at(inner, 0));
  const std::string zip = zip_bytes({{"m/aa", hidden}, {"m/bb", "second"}});
  EXPECT_EQ(error_word(zip), "success");
  EXPECT_EQ(error_word(with_number(zip, central_at(zip, 1) + 42, zip.find(hidden), 4)), "zip-corrupt");
}

TEST(ZipReader, RefusesASecondEndRecordInTheComment) {
  const std::string harmless = zip_bytes({{"m/aa", "first file"}}, "a comment");
  EXPECT_EQ(error_word(harmless), "success");
  const std::string zip = two_files();
  const std::string end_record = zip.substr(end_at(zip));
  EXPECT_EQ(error_word(with_number(zip, end_at(zip) + 20, end_record.size(), 2) + end_record), "zip-corrupt");
}

TEST(ZipReader, ChecksTheCrc) {
  std::string zip = two_files();
  zip[zip.find("second")] = 'S';
  const auto reader = read(zip);
  ASSERT_TRUE(reader);
  EXPECT_TRUE(reader->check_crc(*reader->find("m/aa")));
  EXPECT_EQ(reader->check_crc(*reader->find("m/bb")).error().code, Code::kZipCorrupt);
  EXPECT_EQ(reader->read(*reader->find("m/bb"), 100).error().code, Code::kZipCorrupt);
}

TEST(ZipReader, SurvivesChangedBytes) {
  const std::string zip = zip_bytes({{"m/aa", "first file"}, {"m/bb", std::string(300, 'b'), true}, {"m/c", ""}}, "c");
  std::mt19937 random(1);
  int errors = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string changed = zip;
    const auto flips = 1 + random() % 3;
    for (unsigned i = 0; i < flips; ++i) changed[random() % changed.size()] = static_cast<char>(random() & 0xFF);
    const auto reader = read(changed);
    if (!reader) {
      ++errors;
      continue;
    }
    for (const ZipEntry& entry : reader->entries()) {
      if (const auto view = reader->view(entry))
        (void)::crc32_z(0, reinterpret_cast<const Bytef*>(view->data()), view->size());
      (void)reader->read(entry, 1 << 20);
    }
  }
  EXPECT_GT(errors, 10000);
}

TEST(ZipReader, OpensTheFileOfTheExample) {
  const auto reader = ZipReader::open(HTPIPE_SOURCE_DIR "/examples/fashion_resnet/fashion_resnet.pt2");
  ASSERT_TRUE(reader) << reader.error().summary();
  for (const ZipEntry& entry : reader->entries()) EXPECT_TRUE(reader->check_crc(entry)) << entry.name;
  EXPECT_EQ(ZipReader::open("/no/such/file").error().code, Code::kFileMissing);
}

}  // namespace
}  // namespace htpipe
