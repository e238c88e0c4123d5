// Files: what a reader or a crash could see while something is written.
#include "base/io.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <thread>

namespace htpipe {
namespace {

namespace fs = std::filesystem;

class IoTest : public testing::Test {
 protected:
  void SetUp() override {
    auto created = TemporaryFolder::create();
    ASSERT_TRUE(created) << created.error().summary();
    folder_.emplace(std::move(*created));
  }
  [[nodiscard]] fs::path at(std::string_view name) const { return folder_->path() / name; }
  /// Reads with the standard library, not with the code under test.
  [[nodiscard]] std::string content(std::string_view name) const {
    std::ifstream file(at(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_->path()), {}));
  }

 private:
  std::optional<TemporaryFolder> folder_;
};

/// Lets no file grow beyond `bytes`, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(IoTest, WritesAllBytesAndNothingElse) {
  const std::string text("a\0b\nc", 5);
  ASSERT_TRUE(write_file_atomic(at("file"), text));
  EXPECT_EQ(content("file"), text);
  EXPECT_EQ(entries(), 1U);
  struct stat status{};
  ASSERT_EQ(::stat(at("file").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0644U);
}

TEST_F(IoTest, CreatesMissingFolders) {
  ASSERT_TRUE(write_file_atomic(at("a/b/c"), std::string_view("x")));
  EXPECT_EQ(content("a/b/c"), "x");
}

TEST_F(IoTest, AReaderKeepsTheOldContentWhileAFileIsReplaced) {
  ASSERT_TRUE(write_file_atomic(at("file"), std::string_view("old")));
  const auto map = MappedFile::open(at("file"));
  ASSERT_TRUE(map);
  ASSERT_TRUE(write_file_atomic(at("file"), std::string_view("new content")));
  const Bytes bytes = (*map)->bytes();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "old");
  EXPECT_EQ(content("file"), "new content");
}

TEST_F(IoTest, AFullDiskLeavesTheOldFileAndNoRest) {
  ASSERT_TRUE(write_file_atomic(at("file"), std::string_view("old")));
  const std::string large(1 << 16, 'x');
  Status status;
  {
    const FileSizeLimit limit(4096);
    status = write_file_atomic(at("file"), large);
  }
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kOutputUnwritable);
  EXPECT_EQ(status.error().place.file, at("file").string());
  EXPECT_EQ(content("file"), "old");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(IoTest, AFolderUnderTheFinalNameStays) {
  ASSERT_TRUE(write_file_atomic(at("taken/inside"), std::string_view("x")));
  const Status status = write_file_atomic(at("taken"), std::string_view("y"));
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kOutputUnwritable);
  EXPECT_EQ(content("taken/inside"), "x");
  EXPECT_EQ(entries(), 1U);
}

TEST_F(IoTest, AFileInPlaceOfAFolderIsAnError) {
  ASSERT_TRUE(write_file_atomic(at("file"), std::string_view("x")));
  for (const Status& status :
       {write_file_atomic(at("file/below"), std::string_view("y")), make_folder(at("file/below"))}) {
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::kOutputUnwritable);
  }
  EXPECT_EQ(content("file"), "x");
}

TEST_F(IoTest, WritersAtTheSameTimeNeverMix) {
  const std::string first(100000, '1');
  const std::string second(50000, '2');
  std::thread other([&] {
    for (int i = 0; i < 20; ++i) EXPECT_TRUE(write_file_atomic(at("file"), first));
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(write_file_atomic(at("file"), second));
    const std::string seen = content("file");
    EXPECT_TRUE(seen == first || seen == second);
  }
  other.join();
  EXPECT_EQ(entries(), 1U);
}

TEST_F(IoTest, ReadsWhatTheStandardLibraryWrote) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += static_cast<char>(i * 7);
  std::ofstream(at("file"), std::ios::binary) << text;
  const auto read = read_text(at("file"));
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, text);
  const auto map = MappedFile::open(at("file"));
  ASSERT_TRUE(map);
  const Bytes bytes = (*map)->bytes();
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), as_bytes(text).begin(), as_bytes(text).end()));
  ASSERT_TRUE(copy_file_atomic(at("file"), at("copy")));
  EXPECT_EQ(content("copy"), text);
}

TEST_F(IoTest, AnEmptyFileIsEmpty) {
  std::ofstream(at("empty")).flush();
  const auto map = MappedFile::open(at("empty"));
  ASSERT_TRUE(map);
  EXPECT_TRUE((*map)->bytes().empty());
  EXPECT_EQ(read_text(at("empty")).value(), "");
}

TEST_F(IoTest, TellsAMissingFileFromAnUnreadableOne) {
  EXPECT_EQ(read_text(at("nothing")).error().code, Code::kFileMissing);
  EXPECT_EQ(MappedFile::open(at("nothing")).error().code, Code::kFileMissing);
  EXPECT_EQ(copy_file_atomic(at("nothing"), at("copy")).error().code, Code::kFileMissing);
  fs::create_directory(at("folder"));
  const auto read = read_text(at("folder"));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kFileUnreadable);
  EXPECT_EQ(read.error().place.file, at("folder").string());
  EXPECT_EQ(MappedFile::open(at("folder")).error().code, Code::kFileUnreadable);
}

TEST_F(IoTest, ATemporaryFolderGoesWithItsOwner) {
  fs::path path;
  {
    auto inner = TemporaryFolder::create(at("parent"));
    ASSERT_TRUE(inner);
    path = inner->path();
    EXPECT_EQ(path.parent_path(), at("parent"));
    ASSERT_TRUE(write_file_atomic(path / "deep/file", std::string_view("x")));
    const TemporaryFolder moved = std::move(*inner);
    EXPECT_TRUE(fs::exists(path));
  }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(fs::exists(at("parent")));
}

}  // namespace
}  // namespace htpipe
