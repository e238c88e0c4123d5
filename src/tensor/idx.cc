// The header is two zero bytes, a type code, the rank and the dimensions as big-endian 32-bit numbers.
#include "tensor/idx.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "tensor/checked_size.h"

namespace htpipe {
namespace {

constexpr std::size_t kPrefix = 4;
constexpr std::size_t kMostDimensions = 8;
/// Deflate cannot pack better than 1032 to 1.
constexpr std::uint64_t kBestRatio = 1032;

/// Gives the file's bytes piece by piece.
class Source {
 public:
  virtual ~Source() = default;
  /// Fills `out` completely, or says why it cannot.
  virtual Status take(std::span<std::byte> out) = 0;
  /// Whether everything was taken and nothing is wrong at the end.
  virtual Status end() = 0;
  /// An upper bound of the bytes that are left.
  [[nodiscard]] virtual std::uint64_t most() const = 0;
};

tl::unexpected<Error> cut_off() { return fail(Code::kFileTruncated, "the file ends before the data that it declares"); }
tl::unexpected<Error> surplus() { return fail(Code::kDataFormat, "bytes after the array"); }

class PlainSource : public Source {
 public:
  explicit PlainSource(Bytes bytes) : bytes_(bytes) {}
  Status take(std::span<std::byte> out) override {
    if (out.size() > bytes_.size()) return cut_off();
    std::copy_n(bytes_.begin(), out.size(), out.begin());
    bytes_ = bytes_.subspan(out.size());
    return {};
  }
  Status end() override {
    if (!bytes_.empty()) return surplus();
    return {};
  }
  [[nodiscard]] std::uint64_t most() const override { return bytes_.size(); }

 private:
  Bytes bytes_;
};

/// One gzip member. zlib checks the CRC-32 and the size at its end.
class GzipSource : public Source {
 public:
  explicit GzipSource(Bytes bytes) : bytes_(bytes) { ready_ = ::inflateInit2(&stream_, MAX_WBITS + 16) == Z_OK; }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;
  ~GzipSource() override {
    if (ready_) ::inflateEnd(&stream_);
  }

  Status take(std::span<std::byte> out) override {
    HTPIPE_TRY(const std::size_t made, inflate_into(out));
    if (made < out.size()) return cut_off();
    return {};
  }
  Status end() override {
    std::byte beyond{};
    HTPIPE_TRY(const std::size_t made, inflate_into({&beyond, 1}));
    if (made > 0 || (ended_ && !bytes_.empty())) return surplus();
    if (!ended_) return cut_off();
    return {};
  }
  [[nodiscard]] std::uint64_t most() const override {
    // What zlib holds back of earlier input is less than a window.
    return (bytes_.size() + (std::uint64_t{1} << MAX_WBITS)) * kBestRatio;
  }

 private:
  Result<std::size_t> inflate_into(std::span<std::byte> out) {
    constexpr std::size_t kStep = std::numeric_limits<uInt>::max();
    std::size_t made = 0;
    while (ready_ && !ended_ && made < out.size()) {
      const std::size_t in = std::min(kStep, bytes_.size());
      const std::size_t room = std::min(kStep, out.size() - made);
      // zlib's interface lacks const, it only reads.
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes_.data()));
      stream_.avail_in = static_cast<uInt>(in);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + made);
      stream_.avail_out = static_cast<uInt>(room);
      const int code = ::inflate(&stream_, Z_NO_FLUSH);
      bytes_ = bytes_.subspan(in - stream_.avail_in);
      made += room - stream_.avail_out;
      ended_ = code == Z_STREAM_END;
      if (code == Z_BUF_ERROR) break;  // no more input
      if (code != Z_OK && code != Z_STREAM_END) {
        return fail(Code::kDataFormat, fmt::format("gzip data are damaged ({})", stream_.msg ? stream_.msg : "zlib"));
      }
    }
    return made;
  }

  Bytes bytes_;
  z_stream stream_{};
  bool ready_ = false;
  bool ended_ = false;
};

Result<Tensor> read_from(Source& source) {
  std::array<std::byte, kPrefix> prefix{};
  HTPIPE_CHECK_OK(source.take(prefix));
  const auto code = std::to_integer<unsigned>(prefix[2]);
  const auto rank = std::to_integer<std::size_t>(prefix[3]);
  if (prefix[0] != std::byte{0} || prefix[1] != std::byte{0}) {
    return fail(Code::kDataFormat, "no idx file (it does not start with two zero bytes)");
  }
  if (code != 0x08) {
    return fail(Code::kDataDtype, fmt::format("idx type code 0x{:02x}; only unsigned bytes (0x08) are read", code));
  }
  if (rank == 0 || rank > kMostDimensions) return fail(Code::kDataFormat, fmt::format("idx file of rank {}", rank));

  std::array<std::byte, 4 * kMostDimensions> sizes{};
  HTPIPE_CHECK_OK(source.take(std::span(sizes).first(4 * rank)));
  TensorType type{DType::kU8, {}, std::nullopt};
  for (std::size_t axis = 0; axis < rank; ++axis) {
    std::int64_t dimension = 0;
    for (std::size_t i = 0; i < 4; ++i) dimension = dimension << 8 | std::to_integer<std::int64_t>(sizes[4 * axis + i]);
    type.shape.push_back(dimension);
  }
  const auto size = checked_size_bytes(type.shape, type.dtype);
  if (!size) return fail(Code::kDataFormat, fmt::format("absurd shape {}", to_string(type.shape)));
  if (*size > source.most()) return cut_off();
  Tensor tensor(std::move(type));
  HTPIPE_CHECK_OK(source.take(tensor.mutable_data<std::byte>()));
  HTPIPE_CHECK_OK(source.end());
  return tensor;
}

}  // namespace

Result<Tensor> read_idx(Bytes bytes) {
  const bool gzip = bytes.size() >= 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
  if (gzip) {
    GzipSource source(bytes);
    return read_from(source);
  }
  PlainSource source(bytes);
  return read_from(source);
}

Result<Tensor> read_idx(const std::filesystem::path& path) {
  HTPIPE_TRY(const auto file, MappedFile::open(path));
  auto tensor = read_idx(file->bytes());
  if (!tensor) return fail(std::move(tensor.error()).in_file(path.string()));
  return tensor;
}

}  // namespace htpipe
