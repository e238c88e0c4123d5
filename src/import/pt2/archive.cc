// Finds the model inside the zip, checks the archive's own version files and turns payloads into tensors.
#include "import/pt2/archive.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/zip_reader.h"
#include "tensor/checked_size.h"

namespace htpipe::pt2 {
namespace {

constexpr std::string_view kModelFile = "/models/model.json";
/// Copies may take as many bytes as the archive has and this many more (expanded tensors are larger than their storage).
constexpr std::uint64_t kSpareCopyBytes = std::uint64_t{1} << 28;

bool is_folder(std::string_view top) { return !top.empty() && top.find('/') == std::string_view::npos; }

/// Says what the archive is instead when it has no models/model.json.
Error no_model(const ZipReader& zip) {
  std::string models;
  const char* hint = "";
  for (const ZipEntry& entry : zip.entries()) {
    const std::size_t slash = entry.name.find('/');
    const std::string_view inner = slash == std::string_view::npos ? entry.name : entry.name.substr(slash + 1);
    if (inner.starts_with("models/") && inner.ends_with(".json")) {
      models += fmt::format("{}{}", models.empty() ? "" : ", ", inner.substr(0, 200));
      hint = "Save the program alone: torch.export.save(exported, \"model.pt2\").";
    } else if (inner == "constants.pkl") {
      hint = "This is a TorchScript file; export the model with torch.export.export and torch.export.save.";
    } else if (inner == "data.pkl" && *hint == '\0') {
      hint = "This is a torch.save file; export the model with torch.export.export and torch.export.save.";
    } else if (inner.starts_with("serialized_exported_program")) {
      hint = "This .pt2 is of an older torch; export with torch 2.13.";
    }
  }
  const std::string message = models.empty() ? "the archive has no models/model.json"
                                             : fmt::format("the archive has {} and no models/model.json", models);
  return Error(Code::kZipEntryMissing, message).with_hint(hint);
}

class Reader {
 public:
  Reader(const ZipReader& zip, ReadOptions options) : zip_(zip), options_(std::move(options)) {
    for (const ZipEntry& entry : zip.entries()) copy_budget_ += entry.packed_size;
  }

  Result<Archive> read() {
    Archive archive;
    archive.file = zip_.file();
    HTPIPE_TRY(archive.folder, find_folder());
    folder_ = archive.folder;
    HTPIPE_CHECK_OK(check_word("archive_format", "pt2", true));
    HTPIPE_CHECK_OK(check_word("archive_version", "0", false));
    HTPIPE_CHECK_OK(check_word("byteorder", "little", false));

    HTPIPE_TRY(const std::string_view model, text("models/model.json"));
    auto program = parse_program(model, options_.dimensions);
    if (!program) return fail(std::move(program.error()).with_note("entry models/model.json"));
    archive.program = std::move(*program);
    HTPIPE_TRY(archive.weights, tensors("data/weights/", "model_weights_config.json"));
    HTPIPE_TRY(archive.constants, tensors("data/constants/", "model_constants_config.json"));
    for (const InputSpec& spec : archive.program.input_specs) HTPIPE_CHECK_OK(check_spec(archive, spec));
    return archive;
  }

 private:
  Result<std::string> find_folder() const {
    std::optional<std::string> found;
    for (const ZipEntry& entry : zip_.entries()) {
      if (!entry.name.ends_with(kModelFile)) continue;
      const std::string_view top = entry.name.substr(0, entry.name.size() - kModelFile.size());
      if (!is_folder(top)) continue;
      if (found) return fail(Code::kZipCorrupt, fmt::format("models in two folders, '{}' and '{}'", *found, top));
      found = std::string(top);
    }
    if (!found) return fail(no_model(zip_));
    return *found;
  }

  Result<Bytes> bytes(std::string_view inner) const {
    HTPIPE_TRY(const ZipEntry entry, zip_.entry(fmt::format("{}/{}", folder_, inner)));
    if (options_.check_crc) HTPIPE_CHECK_OK(zip_.check_crc(entry));
    return zip_.view(entry);
  }

  Result<std::string_view> text(std::string_view inner) const {
    HTPIPE_TRY(const Bytes content, bytes(inner));
    return std::string_view(reinterpret_cast<const char*>(content.data()), content.size());
  }

  /// A small file that must hold one word. torch takes the default for one that is missing and not `required`.
  Status check_word(std::string_view inner, std::string_view expected, bool required) const {
    if (!required && zip_.find(fmt::format("{}/{}", folder_, inner)) == nullptr) return {};
    HTPIPE_TRY(std::string_view word, text(inner));
    if (word.ends_with('\n')) word.remove_suffix(1);
    if (word == expected) return {};
    const bool printable = std::all_of(word.begin(), word.end(), [](char c) { return c > 0x20 && c < 0x7F; });
    return fail(Code::kPt2Version,
                fmt::format("{} is {}, supported is '{}'", inner,
                            printable ? fmt::format("'{}'", word.substr(0, 40)) : "no word", expected));
  }

  Result<TensorMap> tensors(const std::string& folder, const std::string& config) {
    HTPIPE_TRY(const std::string_view json, text(folder + config));
    auto payloads = parse_payloads(json);
    if (!payloads) return fail(std::move(payloads.error()).with_note(fmt::format("entry {}{}", folder, config)));
    TensorMap map;
    std::map<std::string, Bytes, std::less<>> contents;  // shared storage is read and checked once
    std::map<std::string, Tensor> copies;                // and so is a strided weight that has several names
    for (const Payload& payload : *payloads) {
      if (payload.meta && !payload.meta->problem.empty()) continue;  // an error only where it is used
      const std::string key = payload.meta ? fmt::format("{} {} {} {} {}", payload.path_name,
                                                         name_of(payload.meta->dtype), to_string(payload.meta->sizes),
                                                         to_string(payload.meta->strides), payload.meta->storage_offset)
                                           : payload.path_name;
      Result<Tensor> tensor = copies.contains(key) ? copies[key] : tensor_of(payload, folder, contents);
      if (!tensor) return fail(std::move(tensor.error()).with_note("weight " + payload.fqn));
      copies[key] = *tensor;
      if (!map.emplace(payload.fqn, std::move(*tensor)).second) {
        return fail(Code::kJsonShape, fmt::format("'{}' occurs twice in {}{}", payload.fqn, folder, config));
      }
    }
    return map;
  }

  Result<Tensor> tensor_of(const Payload& payload, const std::string& folder,
                           std::map<std::string, Bytes, std::less<>>& contents) {
    if (payload.pickled || !payload.meta) {
      return fail(Error(Code::kUnsupportedForm, "the data are a Python pickle (tensor subclass or custom object)")
                      .with_hint("Convert the weight to a plain torch.Tensor before the export."));
    }
    auto known = contents.find(payload.path_name);
    if (known == contents.end()) {
      HTPIPE_TRY(const Bytes content, bytes(folder + payload.path_name));
      known = contents.emplace(payload.path_name, content).first;
    }
    return strided(*payload.meta, known->second);
  }

  /// The tensor that `meta` describes inside `storage`.
  Result<Tensor> strided(const TensorMeta& meta, Bytes storage) {
    const std::uint64_t item = size_of(meta.dtype);
    const std::uint64_t size = checked_size_bytes(meta.sizes, meta.dtype).value_or(0);
    TensorType type{meta.dtype, meta.sizes, std::nullopt};
    if (size == 0) return Tensor(std::move(type));

    // Strides and offset may be any number up to 2^63 here.
    std::uint64_t last = static_cast<std::uint64_t>(meta.storage_offset);
    bool contiguous = true;
    bool wraps = false;
    std::int64_t expected = 1;
    for (std::size_t axis = meta.sizes.size(); axis-- > 0;) {
      if (meta.sizes[axis] == 1) continue;
      contiguous = contiguous && meta.strides[axis] == expected;
      expected *= meta.sizes[axis];
      std::uint64_t reach = 0;
      wraps = wraps || __builtin_mul_overflow(static_cast<std::uint64_t>(meta.strides[axis]),
                                              static_cast<std::uint64_t>(meta.sizes[axis] - 1), &reach);
      wraps = wraps || __builtin_add_overflow(last, reach, &last);
    }
    if (wraps || last >= storage.size() / item) {
      return fail(Code::kWeightsShort,
                  fmt::format("{}{} with strides {} from element {} does not fit into {} bytes", name_of(meta.dtype),
                              to_string(meta.sizes), to_string(meta.strides), meta.storage_offset, storage.size()));
    }
    const std::byte* const start = storage.data() + static_cast<std::uint64_t>(meta.storage_offset) * item;
    if (contiguous && reinterpret_cast<std::uintptr_t>(start) % item == 0) {
      return Tensor(std::move(type), zip_.owner(), start);
    }
    if (size > copy_budget_) {
      return fail(Code::kJsonShape, fmt::format("copies of strided tensors need more than {} bytes", copy_budget_));
    }
    copy_budget_ -= size;
    if (contiguous) return Tensor::from<std::byte>(std::move(type), {start, size});
    return gather(std::move(type), meta.strides, start, item);
  }

  static Tensor gather(TensorType type, const std::vector<std::int64_t>& strides, const std::byte* start,
                       std::size_t item) {
    Tensor result(std::move(type));
    std::byte* out = result.mutable_data<std::byte>().data();
    std::vector<std::int64_t> index(strides.size(), 0);
    const Shape& sizes = result.shape();
    for (std::int64_t i = 0; i < result.count(); ++i) {
      std::int64_t offset = 0;
      for (std::size_t axis = 0; axis < index.size(); ++axis) offset += index[axis] * strides[axis];
      std::memcpy(out, start + static_cast<std::size_t>(offset) * item, item);
      out += item;
      for (std::size_t axis = index.size(); axis-- > 0;) {
        if (++index[axis] < sizes[axis]) break;
        index[axis] = 0;
      }
    }
    return result;
  }

  static Status check_spec(const Archive& archive, const InputSpec& spec) {
    const bool has_data = spec.kind == InputKind::kParameter || spec.kind == InputKind::kBuffer ||
                          spec.kind == InputKind::kTensorConstant;
    if (!has_data) return {};
    const auto value = archive.program.tensor_values.find(spec.name);
    if (value != archive.program.tensor_values.end() && !value->second.problem.empty()) return {};
    const Tensor* const data = archive.data_of(spec);
    if (data == nullptr) {
      return fail(Code::kZipEntryMissing, fmt::format("the archive has no data for '{}' ({})", spec.fqn, spec.name));
    }
    if (value == archive.program.tensor_values.end()) {
      return fail(Code::kJsonShape, fmt::format("the graph has no value '{}' for '{}'", spec.name, spec.fqn));
    }
    if (value->second.dtype != data->dtype() || value->second.sizes != data->shape()) {
      return fail(Code::kShapeMismatch, fmt::format("'{}' is {} in the graph and {} in its data", spec.fqn,
                                                    to_string(TensorType{value->second.dtype, value->second.sizes, {}}),
                                                    to_string(data->type())));
    }
    return {};
  }

  const ZipReader& zip_;
  ReadOptions options_;
  std::string folder_;
  std::uint64_t copy_budget_ = kSpareCopyBytes;
};

}  // namespace

const Tensor* Archive::data_of(const InputSpec& spec) const {
  const bool constant =
      spec.kind == InputKind::kTensorConstant || (spec.kind == InputKind::kBuffer && !spec.persistent);
  if (!constant && spec.kind != InputKind::kParameter && spec.kind != InputKind::kBuffer) return nullptr;
  const TensorMap& map = constant ? constants : weights;
  const auto found = map.find(spec.fqn);
  return found == map.end() ? nullptr : &found->second;
}

Result<Archive> read_pt2(Bytes bytes, std::shared_ptr<const void> owner, std::string file, ReadOptions options) {
  HTPIPE_TRY(const ZipReader zip, ZipReader::from_bytes(bytes, std::move(owner), std::move(file)));
  auto archive = Reader(zip, std::move(options)).read();
  if (!archive) return fail(std::move(archive.error()).in_file(zip.file()));
  return archive;
}

Result<Archive> read_pt2(const std::shared_ptr<const MappedFile>& file, ReadOptions options) {
  return read_pt2(file->bytes(), file, file->path().string(), std::move(options));
}

Result<Archive> read_pt2(const std::filesystem::path& path, ReadOptions options) {
  HTPIPE_TRY(const auto file, MappedFile::open(path));
  return read_pt2(file, std::move(options));
}

}  // namespace htpipe::pt2
