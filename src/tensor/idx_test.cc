// The oracle for compression is zlib's gzwrite, for real data the Fashion-MNIST package of the distribution.
#include "tensor/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <array>
#include <filesystem>
#include <random>

namespace htpipe {
namespace {

std::string idx(std::initializer_list<std::uint32_t> shape, std::size_t bytes, char code = 0x08) {
  std::string text = {0, 0, code, static_cast<char>(shape.size())};
  for (const std::uint32_t dimension : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>((dimension >> shift) & 0xFF);
  }
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(i * 7);
  return text;
}

std::string gzip(const std::string& content) {
  const auto folder = TemporaryFolder::create();
  const std::string path = (folder->path() / "x.gz").string();
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
  return *read_text(path);
}

std::string error_word(const std::string& text) {
  const auto tensor = read_idx(as_bytes(text));
  return tensor ? "success" : std::string(word(tensor.error().code));
}

TEST(Idx, ReadsPlainAndCompressed) {
  const std::string plain = idx({3, 2, 5}, 30);
  for (const std::string& file : {plain, gzip(plain)}) {
    const auto tensor = read_idx(as_bytes(file));
    ASSERT_TRUE(tensor) << tensor.error().summary();
    EXPECT_EQ(to_string(tensor->type()), "u8[3,2,5]");
    for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(tensor->data<std::uint8_t>()[i], static_cast<std::uint8_t>(i * 7));
  }
  EXPECT_EQ(error_word(idx({0}, 0)), "success");
  EXPECT_EQ(error_word(gzip(idx({0}, 0))), "success");
}

TEST(Idx, RefusesWhatItCannotRead) {
  EXPECT_EQ(error_word(""), "file-truncated");
  EXPECT_EQ(error_word("\x93NUMPY..."), "data-format");
  EXPECT_EQ(error_word(idx({2}, 8, 0x0D)), "data-dtype");
  EXPECT_EQ(error_word(idx({}, 0)), "data-format");
  EXPECT_EQ(error_word(idx({2, 3}, 5)), "file-truncated");
  EXPECT_EQ(error_word(idx({2, 3}, 7)), "data-format");
  EXPECT_EQ(error_word(gzip(idx({2, 3}, 5))), "file-truncated");
  EXPECT_EQ(error_word(gzip(idx({2, 3}, 7))), "data-format");
  EXPECT_EQ(error_word(gzip(idx({2, 3}, 6)) + "x"), "data-format");
  EXPECT_EQ(error_word(idx({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF}, 6)), "data-format");
  // Sizes that could be allocated but not be there.
  EXPECT_EQ(error_word(idx({0xFFFFFFFF, 1000}, 6)), "file-truncated");
  EXPECT_EQ(error_word(gzip(idx({0xFFFFFFFF, 1000}, 6))), "file-truncated");
  EXPECT_EQ(read_idx(std::filesystem::path("/no/such/file")).error().code, Code::kFileMissing);
}

TEST(Idx, EveryTruncationIsAnError) {
  const std::string plain = idx({40, 5}, 200);
  for (const std::string& file : {plain, gzip(plain)}) {
    for (std::size_t size = 0; size < file.size(); ++size) {
      EXPECT_NE(error_word(file.substr(0, size)), "success") << size;
    }
  }
}

TEST(Idx, DamagedCompressionNeverGivesOtherContent) {
  const std::string file = gzip(idx({40, 5}, 200));
  const auto right = read_idx(as_bytes(file));
  ASSERT_TRUE(right);
  std::mt19937 random(3);
  constexpr std::size_t kHeader = 10;  // holds a time and a system that nobody checks
  int errors = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string changed = file;
    const std::size_t at = kHeader + random() % (changed.size() - kHeader);
    changed[at] = static_cast<char>(changed[at] ^ (1 + random() % 255));
    const auto tensor = read_idx(as_bytes(changed));
    if (!tensor) {
      ++errors;
      continue;
    }
    // Deflate has bits without meaning.
    EXPECT_TRUE(std::equal(tensor->bytes().begin(), tensor->bytes().end(), right->bytes().begin())) << at;
  }
  EXPECT_GT(errors, 4900);
}

TEST(Idx, ReadsFashionMnist) {
  const std::filesystem::path folder = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const auto images = read_idx(folder / "t10k-images-idx3-ubyte.gz");
  const auto labels = read_idx(folder / "t10k-labels-idx1-ubyte.gz");
  ASSERT_TRUE(images) << images.error().summary();
  ASSERT_TRUE(labels) << labels.error().summary();
  EXPECT_EQ(to_string(images->type()), "u8[10000,28,28]");
  EXPECT_EQ(to_string(labels->type()), "u8[10000]");
  std::array<int, 256> count{};
  for (const std::uint8_t label : labels->data<std::uint8_t>()) ++count[label];
  // The data set is balanced: 1000 of each of the 10 classes.
  for (std::size_t label = 0; label < count.size(); ++label) EXPECT_EQ(count[label], label < 10 ? 1000 : 0) << label;
}

}  // namespace
}  // namespace htpipe
