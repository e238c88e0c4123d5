// Arrays that are written piece by piece: the same bytes as when they are written at once, and nothing half-written.
#include "tensor/npz_stream.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/zip_records.h"
#include "tensor/npy.h"

namespace htpipe {
namespace {

Tensor counting(const Shape& shape, float first) {
  Tensor tensor({DType::kF32, shape, std::nullopt});
  const auto data = tensor.mutable_data<float>();
  std::iota(data.begin(), data.end(), first);
  return tensor;
}

TEST(NpzStream, GivesTheBytesOfAWholeWrite) {
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  const auto path = folder->path() / "deep" / "a.npz";
  const Tensor a = counting({3, 5}, 1);
  const Tensor b = counting({3, 1, 7}, 100);
  auto stream = NpzStream::create(path, {{"first", DType::kF32, {3, 5}}, {"x/second", DType::kF32, {3, 1, 7}}});
  ASSERT_TRUE(stream) << stream.error().summary();
  for (std::size_t row = 0; row < 3; ++row) {  // interleaved, as samples come
    ASSERT_TRUE(stream->append(0, a.bytes().subspan(row * 20, 20)));
    ASSERT_TRUE(stream->append(1, b.bytes().subspan(row * 28, 28)));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(stream->finish());
  const std::vector<NamedTensor> whole = {{"first", a}, {"x/second", b}};
  EXPECT_EQ(*read_text(path), *to_npz(whole));
}

TEST(NpzStream, LeavesNothingWhenItIsNotFinished) {
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  {
    auto stream = NpzStream::create(folder->path() / "a.npz", {{"x", DType::kU8, {4}}});
    ASSERT_TRUE(stream);
    ASSERT_TRUE(stream->append(0, as_bytes("ab")));
    EXPECT_ANY_THROW((void)stream->append(0, as_bytes("cde")));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder->path()));
}

TEST(NpzStream, RefusesNamesAndPlacesThatCannotBe) {
  const auto folder = TemporaryFolder::create();
  ASSERT_TRUE(folder);
  const auto code = [&](const std::filesystem::path& path, const std::vector<NpzStream::Array>& arrays) {
    const auto stream = NpzStream::create(path, arrays);
    return stream ? "none" : std::string(word(stream.error().code));
  };
  const auto path = folder->path() / "a.npz";
  EXPECT_EQ(code(path, {{"x", DType::kU8, {4}}, {"x", DType::kU8, {4}}}), "data-format");
  EXPECT_EQ(code(path, {{"", DType::kU8, {4}}}), "data-format");
  EXPECT_EQ(code(path, {{"x", DType::kBF16, {4}}}), "data-dtype");
  EXPECT_EQ(code("/proc/no/a.npz", {}), "output-unwritable");
  EXPECT_EQ(code(path, {}), "none");
  EXPECT_TRUE(std::filesystem::is_empty(folder->path()));
}

TEST(ZipRecords, LargeNumbersGoIntoTheZip64Fields) {
  const std::uint64_t big = std::uint64_t{5} << 32;
  EXPECT_EQ(local_record({"n", 7, 0, 0}).size(), 31U);
  EXPECT_EQ(local_record({"n", big, 0, 0}).size(), 31U + 20);
  EXPECT_EQ(directory_record({"n", 7, 9, 0}).size(), 47U);
  EXPECT_EQ(directory_record({"n", 7, big, 0}).size(), 47U + 12);
  EXPECT_EQ(directory_record({"n", big, big, 0}).size(), 47U + 28);
  EXPECT_EQ(end_records(3, 10, 20).size(), 22U);
  EXPECT_EQ(end_records(3, 10, big).size(), 22U + 56 + 20);
  EXPECT_EQ(end_records(70000, 10, 20).size(), 22U + 56 + 20);
}

}  // namespace
}  // namespace htpipe
