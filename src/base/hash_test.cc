// SHA-256 against the example digests of FIPS 180-4.
#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace htpipe {
namespace {

struct Vector {
  std::string message;
  std::string digest;
};

std::vector<Vector> fips_vectors() {
  return {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrst"
       "u",
       "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
      {std::string(1000000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
}

TEST(Sha256Test, GivesThePublishedDigests) {
  for (const Vector& vector : fips_vectors()) EXPECT_EQ(sha256_hex(as_bytes(vector.message)), vector.digest);
}

TEST(Sha256Test, PiecesGiveTheDigestOfTheWhole) {
  for (const Vector& vector : fips_vectors()) {
    Sha256 hash;
    for (std::size_t at = 0; at < vector.message.size(); at += 63) {
      hash.raw(as_bytes(std::string_view(vector.message).substr(at, 63)));
    }
    EXPECT_EQ(hash.hex(), vector.digest);
  }
}

TEST(Sha256Test, AFileHasTheDigestOfItsContent) {
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  for (const Vector& vector : fips_vectors()) {
    const auto path = folder->path() / "message";
    ASSERT_TRUE(write_file_atomic(path, vector.message));
    const auto digest = sha256_file(path);
    ASSERT_TRUE(digest) << digest.error().summary();
    EXPECT_EQ(*digest, vector.digest);
  }
  const auto missing = sha256_file(folder->path() / "nothing");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kFileMissing);
}

TEST(Sha256Test, TextIsPrefixedWithItsLengthInEightLittleEndianBytes) {
  Sha256 hash;
  hash.add("ab");
  hash.add(-2);
  const std::string same = std::string("\2\0\0\0\0\0\0\0ab", 10) + "\xFE" + std::string(7, '\xFF');
  EXPECT_EQ(hash.hex(), sha256_hex(as_bytes(same)));
}

TEST(Sha256Test, TheSplitOfTextsMatters) {
  Sha256 left;
  left.add("ab");
  left.add("c");
  Sha256 right;
  right.add("a");
  right.add("bc");
  EXPECT_NE(left.hex(), right.hex());
}

}  // namespace
}  // namespace htpipe
