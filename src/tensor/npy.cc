// The header of a .npy is a Python dictionary literal with three keys; HeaderParser reads just that much of Python.
#include "tensor/npy.h"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/zip_reader.h"
#include "base/zip_records.h"
#include "tensor/checked_size.h"

namespace htpipe {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64;
/// Most bytes of one deflated member.
constexpr std::uint64_t kMostInflated = std::uint64_t{1} << 32;

constexpr std::array<std::pair<DType, std::string_view>, 12> kDescriptions = {{
    {DType::kF64, "<f8"},
    {DType::kF32, "<f4"},
    {DType::kF16, "<f2"},
    {DType::kI64, "<i8"},
    {DType::kI32, "<i4"},
    {DType::kI16, "<i2"},
    {DType::kI8, "|i1"},
    {DType::kU64, "<u8"},
    {DType::kU32, "<u4"},
    {DType::kU16, "<u2"},
    {DType::kU8, "|u1"},
    {DType::kBool, "|b1"},
}};

struct Header {
  std::string_view description;
  bool fortran = false;
  Shape shape;
};

/// Reads "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }" in any order of the keys.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  std::optional<Header> parse() {
    Header header;
    bool seen_description = false;
    bool seen_order = false;
    bool seen_shape = false;
    if (!take("{")) return std::nullopt;
    while (!take("}")) {
      const auto key = quoted();
      if (!key || !take(":")) return std::nullopt;
      if (*key == "descr" && !seen_description) {
        const auto value = quoted();
        if (!value) return std::nullopt;
        header.description = *value;
        seen_description = true;
      } else if (*key == "fortran_order" && !seen_order) {
        header.fortran = take("True");
        if (!header.fortran && !take("False")) return std::nullopt;
        seen_order = true;
      } else if (*key == "shape" && !seen_shape) {
        if (!shape(header.shape)) return std::nullopt;
        seen_shape = true;
      } else {
        return std::nullopt;
      }
      if (!take(",") && !next_is('}')) return std::nullopt;
    }
    skip_space();
    if (!rest_.empty() || !seen_description || !seen_order || !seen_shape) return std::nullopt;
    return header;
  }

 private:
  void skip_space() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n')) rest_.remove_prefix(1);
  }
  bool next_is(char c) {
    skip_space();
    return !rest_.empty() && rest_.front() == c;
  }
  bool take(std::string_view word) {
    skip_space();
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> quoted() {
    skip_space();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return std::nullopt;
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool shape(Shape& dimensions) {
    if (!take("(")) return false;
    while (!take(")")) {
      skip_space();
      std::int64_t dimension = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), dimension);
      if (error != std::errc{} || dimensions.size() == 64) return false;
      rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
      take("L");  // Python 2
      dimensions.push_back(dimension);
      if (!take(",") && !next_is(')')) return false;
    }
    return true;
  }

  std::string_view rest_;
};

std::optional<DType> dtype_of(std::string_view description) {
  for (const auto& [dtype, text] : kDescriptions) {
    if (text == description) return dtype;
    // One-byte types have no byte order, and '=' is never written to a file.
    if (text.front() == '|' && description == "<" + std::string(text.substr(1))) return dtype;
  }
  return std::nullopt;
}

std::optional<std::string_view> description_of(DType dtype) {
  for (const auto& [candidate, text] : kDescriptions) {
    if (candidate == dtype) return text;
  }
  return std::nullopt;
}

tl::unexpected<Error> bad_format(std::string message) { return fail(Code::kDataFormat, std::move(message)); }

/// Splits the file into the header's text and the data behind it.
Result<std::pair<std::string_view, Bytes>> split(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.substr(0, kMagic.size()) != kMagic) return bad_format("not a .npy file (no NUMPY at its start)");
  const auto byte = [bytes](std::size_t at) { return std::to_integer<std::size_t>(bytes[at]); };
  if (bytes.size() < 10) return fail(Code::kFileTruncated, "the .npy header is cut off");
  const std::size_t major = byte(6);
  if (major < 1 || major > 3 || byte(7) != 0) return bad_format(fmt::format(".npy version {}.{}", major, byte(7)));
  const std::size_t start = major == 1 ? 10 : 12;
  if (bytes.size() < start) return fail(Code::kFileTruncated, "the .npy header is cut off");
  std::size_t size = byte(8) | (byte(9) << 8);
  if (major > 1) size |= (byte(10) << 16) | (byte(11) << 24);
  if (size > bytes.size() - start) return fail(Code::kFileTruncated, "the .npy header is cut off");
  return std::pair{text.substr(start, size), bytes.subspan(start + size)};
}

}  // namespace

Result<Tensor> read_npy(Bytes bytes, const std::shared_ptr<const void>& owner) {
  HTPIPE_TRY(const auto parts, split(bytes));
  const Bytes data = parts.second;
  const auto header = HeaderParser(parts.first).parse();
  if (!header) return bad_format("the .npy header is not a plain array's");
  const auto dtype = dtype_of(header->description);
  if (!dtype) return fail(Code::kDataDtype, fmt::format("array of NumPy type '{}'", header->description));
  const auto size = checked_size_bytes(header->shape, *dtype);
  if (!size) return bad_format(fmt::format("absurd shape {}", to_string(header->shape)));
  if (*size > data.size()) {
    return fail(Code::kFileTruncated, fmt::format("{} bytes of data where {}{} needs {}", data.size(), name_of(*dtype),
                                                  to_string(header->shape), *size));
  }
  if (*size < data.size()) return bad_format(fmt::format("{} bytes after the array", data.size() - *size));
  if (header->fortran && header->shape.size() > 1) {
    return fail(
        Error(Code::kDataFormat, "the array is in Fortran order").with_hint("Save numpy.ascontiguousarray(array)."));
  }
  TensorType type{*dtype, header->shape, std::nullopt};
  if (*size > 0 && reinterpret_cast<std::uintptr_t>(data.data()) % size_of(*dtype) == 0) {
    return Tensor(std::move(type), owner, data.data());
  }
  return Tensor::from<std::byte>(std::move(type), data);
}

Result<Tensor> read_npy(const std::filesystem::path& path) {
  HTPIPE_TRY(const auto file, MappedFile::open(path));
  auto tensor = read_npy(file->bytes(), file);
  if (!tensor) return fail(std::move(tensor.error()).in_file(path.string()));
  return tensor;
}

Result<std::vector<NamedTensor>> read_npz(Bytes bytes, std::shared_ptr<const void> owner, std::string file) {
  HTPIPE_TRY(const ZipReader archive, ZipReader::from_bytes(bytes, std::move(owner), std::move(file)));
  std::vector<NamedTensor> tensors;
  for (const ZipEntry& entry : archive.entries()) {
    constexpr std::string_view kEnding = ".npy";
    if (!entry.name.ends_with(kEnding)) {
      return fail(Error(Code::kDataFormat, fmt::format("member '{}' is no .npy", entry.name)).in_file(archive.file()));
    }
    Result<Tensor> tensor;
    if (entry.method == 0) {
      HTPIPE_CHECK_OK(archive.check_crc(entry));
      HTPIPE_TRY(const Bytes content, archive.view(entry));
      tensor = read_npy(content, archive.owner());
    } else {
      HTPIPE_TRY(auto content, archive.read(entry, kMostInflated));
      const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(content));
      tensor = read_npy(*kept, kept);
    }
    const std::string name(entry.name.substr(0, entry.name.size() - kEnding.size()));
    if (!tensor) return fail(std::move(tensor.error()).in_file(archive.file()).with_note("array " + name));
    tensors.push_back({name, std::move(*tensor)});
  }
  return tensors;
}

Result<std::vector<NamedTensor>> read_npz(const std::filesystem::path& path) {
  HTPIPE_TRY(const auto file, MappedFile::open(path));
  return read_npz(file->bytes(), file, path.string());
}

Result<std::string> npy_header(DType dtype, const Shape& shape) {
  const auto description = description_of(dtype);
  if (!description) return fail(Code::kDataDtype, fmt::format("NumPy has no type for {}", name_of(dtype)));
  const std::string tuple =
      shape.size() == 1 ? fmt::format("({},)", shape[0]) : fmt::format("({})", fmt::join(shape, ", "));
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}", *description, tuple);
  // NumPy keeps room so that the first dimension can grow to 21 digits without moving the data.
  if (!shape.empty()) header.append(21 - std::min<std::size_t>(21, fmt::formatted_size("{}", shape[0])), ' ');
  constexpr std::size_t kPrefix = 10;
  header.append(kAlignment - (kPrefix + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  if (header.size() > std::numeric_limits<std::uint16_t>::max()) return bad_format("the shape has too many dimensions");

  std::string content(kMagic);
  content += '\x01';
  content += '\x00';
  content += static_cast<char>(header.size() & 0xFF);
  content += static_cast<char>(header.size() >> 8);
  return content + header;
}

Result<std::string> to_npy(const Tensor& tensor) {
  HTPIPE_TRY(std::string content, npy_header(tensor.dtype(), tensor.shape()));
  const Bytes data = tensor.bytes();
  content.append(reinterpret_cast<const char*>(data.data()), data.size());
  return content;
}

Result<std::string> to_npz(std::span<const NamedTensor> tensors) {
  std::string archive;
  std::string directory;
  std::set<std::string, std::less<>> names;
  for (const NamedTensor& member : tensors) {
    if (member.name.empty() || !names.insert(member.name).second) {
      return bad_format(fmt::format("array name '{}' is empty or given twice", member.name));
    }
    const std::string name = member.name + ".npy";
    HTPIPE_TRY(const std::string content, to_npy(member.tensor));
    if (name.size() > 0xFFFF || archive.size() + content.size() + directory.size() + 0x20000 > 0xFFFFFFFFU) {
      return bad_format("the arrays are too large for one .npz");
    }
    const auto crc = ::crc32_z(0, reinterpret_cast<const unsigned char*>(content.data()), content.size());
    const StoredEntry entry = {name, content.size(), archive.size(), static_cast<std::uint32_t>(crc)};
    directory += directory_record(entry);
    archive += local_record(entry);
    archive += content;
  }
  if (tensors.size() >= 0xFFFF) return bad_format("too many arrays for one .npz");
  const std::uint64_t start = archive.size();
  archive += directory;
  archive += end_records(tensors.size(), directory.size(), start);
  HTPIPE_CHECK_OK(ZipReader::from_bytes(as_bytes(archive), nullptr, {}).map([](const ZipReader&) {}));
  return archive;
}

Status write_npy(const std::filesystem::path& path, const Tensor& tensor) {
  auto content = to_npy(tensor);
  if (!content) return fail(std::move(content.error()).in_file(path.string()));
  return write_file_atomic(path, *content);
}

Status write_npz(const std::filesystem::path& path, std::span<const NamedTensor> tensors) {
  auto content = to_npz(tensors);
  if (!content) return fail(std::move(content.error()).in_file(path.string()));
  return write_file_atomic(path, *content);
}

}  // namespace htpipe
