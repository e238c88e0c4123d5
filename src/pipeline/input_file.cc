#include "pipeline/input_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/io.h"
#include "pipeline/input_convert.h"
#include "tensor/npy.h"

namespace htpipe {
namespace {

namespace fs = std::filesystem;

std::string names_of(const std::vector<Port>& inputs) {
  std::vector<std::string_view> names;
  for (const Port& port : inputs) names.push_back(port.name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

const Port* find(const std::vector<Port>& inputs, std::string_view name) {
  const auto at = std::find_if(inputs.begin(), inputs.end(), [&](const Port& port) { return port.name == name; });
  return at == inputs.end() ? nullptr : &*at;
}

Error unknown_input(std::string_view name, const std::vector<Port>& inputs) {
  return Error(Code::kDataShape, fmt::format("\"{}\" is no input of the model", name.substr(0, 80)))
      .with_hint(fmt::format("Its inputs: {}.", names_of(inputs)));
}

// ---- arrays ---------------------------------------------------------------------------------------------------------

/// How many samples `given` holds. Errors: data-shape.
Result<std::int64_t> samples_in(const Tensor& given, const Port& port) {
  const Shape& shape = given.shape();
  const Shape& want = port.type.shape;
  const auto bad = [&] {
    std::string wanted = "[samples]";
    if (!want.empty()) {
      wanted = to_string(want);
      if (want.size() > 1) wanted += ", or a multiple of it along the first axis";
    }
    return fail(Error(Code::kDataShape,
                      fmt::format("input {}: the data are {}, needs {}", port.name, to_string(shape), wanted)));
  };
  if (want.empty()) {
    if (shape.size() > 1) return bad();
    return shape.empty() ? 1 : shape.front();
  }
  if (shape.size() != want.size() || !std::equal(shape.begin() + 1, shape.end(), want.begin() + 1)) return bad();
  if (want.front() == 0) {
    if (shape.front() != 0) return bad();
    return 1;
  }
  if (shape.front() % want.front() != 0) return bad();
  return shape.front() / want.front();
}

/// Sample `index` of stacked data, converted.
Result<Tensor> sample_of(const Tensor& stacked, const Port& port, std::int64_t index) {
  TensorType type{stacked.dtype(), port.type.shape, std::nullopt};
  const std::byte* data = stacked.bytes().data() + static_cast<std::size_t>(index) * type.size_bytes();
  // The view is only read here, or by the one who asked for the sample while the arrays are there.
  const auto owner = std::make_shared<const Tensor>(stacked);
  return convert_input(Tensor(std::move(type), owner, data), port);
}

Result<SampleSource> from_arrays(std::vector<NamedTensor> arrays, std::vector<Port> inputs) {
  std::map<std::string, Tensor> by_name;
  for (NamedTensor& array : arrays) {
    if (find(inputs, array.name) == nullptr) return fail(unknown_input(array.name, inputs));
    by_name[array.name] = std::move(array.tensor);
  }
  std::optional<std::int64_t> samples;
  for (const Port& port : inputs) {
    const auto at = by_name.find(port.name);
    if (at == by_name.end()) {
      return fail(Error(Code::kDataShape, fmt::format("input {} is missing", port.name))
                      .with_hint(fmt::format("The model's inputs: {}.", names_of(inputs))));
    }
    HTPIPE_CHECK_OK(check_convertible(at->second.type(), port));
    HTPIPE_TRY(const std::int64_t count, samples_in(at->second, port));
    if (samples && *samples != count) {
      return fail(Code::kDataShape,
                  fmt::format("input {} has {} samples, another input has {}", port.name, count, *samples));
    }
    samples = count;
  }
  return SampleSource{
      samples.value_or(1),
      [data = std::move(by_name), inputs = std::move(inputs)](std::int64_t index) -> Result<std::vector<Tensor>> {
        std::vector<Tensor> tensors;
        for (const Port& port : inputs) {
          auto tensor = sample_of(data.at(port.name), port, index);
          if (!tensor) {
            return fail(std::move(tensor.error()).with_note(fmt::format("in sample {}", index)));
          }
          tensors.push_back(std::move(*tensor));
        }
        return tensors;
      }};
}

// ---- lists of raw files ---------------------------------------------------------------------------------------------

/// A raw file in float32 or in the port's own type. Errors: file-truncated, data-shape.
Result<Tensor> read_raw(const fs::path& path, const Port& port) {
  HTPIPE_TRY(const auto file, MappedFile::open(path));
  const std::size_t size = file->bytes().size();
  const bool real = is_float(port.type.dtype) || port.type.encoding.has_value();
  const TensorType floats{DType::kF32, port.type.shape, std::nullopt};
  const TensorType native{port.type.dtype, port.type.shape, std::nullopt};
  const TensorType& type = real && size == floats.size_bytes() ? floats : native;
  if (size != type.size_bytes()) {
    const std::size_t largest = std::max(native.size_bytes(), real ? floats.size_bytes() : 0);
    const std::string as_floats = real ? fmt::format("{} bytes in f32", floats.size_bytes()) : "";
    const std::string also =
        real && native.dtype == DType::kF32
            ? ""
            : fmt::format("{}{} bytes in {}", real ? " or " : "", native.size_bytes(), name_of(native.dtype));
    return fail(Error(size < largest ? Code::kFileTruncated : Code::kDataShape,
                      fmt::format("input {} of {} takes {}{}, the file has {}", port.name, to_string(port.type.shape),
                                  as_floats, also, size))
                    .in_file(path.string()));
  }
  // An empty file is not mapped.
  const Tensor tensor = size == 0 ? Tensor(type) : Tensor(type, file, file->bytes().data());
  auto converted = convert_input(tensor, port);
  if (!converted) return fail(std::move(converted.error()).in_file(path.string()));
  return converted;
}

using Line = std::vector<fs::path>;  ///< a file per input, in their order

std::vector<std::string_view> words_of(std::string_view line) {
  constexpr std::string_view kSpace = " \t\r";
  std::vector<std::string_view> words;
  for (std::size_t at = line.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(kSpace, at), line.size());
    words.push_back(line.substr(at, end - at));
    at = line.find_first_not_of(kSpace, end);
  }
  return words;
}

Result<Line> parse_line(const std::vector<std::string_view>& words, const std::vector<Port>& inputs,
                        const fs::path& folder) {
  Line files(inputs.size());
  for (const std::string_view word : words) {
    const std::size_t mark = word.find(":=");
    std::size_t input = 0;
    std::string_view file = word;
    if (mark == std::string_view::npos) {
      if (inputs.size() != 1) {
        return fail(Error(Code::kDataFormat, fmt::format("\"{}\" does not say which input it is for", word))
                        .with_hint(fmt::format("Write name:=path; the inputs: {}.", names_of(inputs))));
      }
    } else {
      const Port* port = find(inputs, word.substr(0, mark));
      if (port == nullptr) return fail(unknown_input(word.substr(0, mark), inputs));
      input = static_cast<std::size_t>(port - inputs.data());
      file = word.substr(mark + 2);
    }
    if (file.empty()) return fail(Code::kDataFormat, fmt::format("\"{}\" names no file", word));
    if (!files[input].empty()) {
      return fail(Code::kDataFormat, fmt::format("input {} is given twice", inputs[input].name));
    }
    files[input] = folder / file;
    std::error_code ignored;
    if (!fs::exists(files[input], ignored)) {
      return fail(Error(Code::kFileMissing, fmt::format("no file {}", files[input].string())));
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (files[i].empty()) return fail(Code::kDataShape, fmt::format("input {} is missing", inputs[i].name));
  }
  return files;
}

Result<InputFile> from_list(const fs::path& path, std::vector<Port> inputs) {
  HTPIPE_TRY(const std::string text, read_text(path));
  if (text.find('\0') != std::string::npos) {
    return fail(
        Error(Code::kDataFormat, "neither .npz nor .npy, and no text")
            .in_file(path.string())
            .with_hint("Raw data are named in an input_list.txt: a line per sample, name:=file for each input."));
  }
  InputFile result;
  result.is_list = true;
  auto lines = std::make_shared<std::vector<Line>>();
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    std::vector<std::string_view> words = words_of(line);
    if (words.empty()) continue;
    if (words.front().front() == '#' || words.front().front() == '%') {
      words.front().remove_prefix(1);
      for (const std::string_view word : words) {
        if (!word.empty()) result.selected.emplace_back(word);
      }
      continue;
    }
    auto parsed = parse_line(words, inputs, path.parent_path());
    if (!parsed) return fail(std::move(parsed.error()).in_file(path.string(), number));
    lines->push_back(std::move(*parsed));
  }
  result.samples.count = static_cast<std::int64_t>(lines->size());
  result.samples.get = [lines, inputs = std::move(inputs)](std::int64_t index) -> Result<std::vector<Tensor>> {
    std::vector<Tensor> tensors;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      HTPIPE_TRY(Tensor tensor, read_raw((*lines)[static_cast<std::size_t>(index)][i], inputs[i]));
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  };
  return result;
}

/// What a file begins with, or what its name says of it when it is empty.
enum class Kind { kNpz, kNpy, kList };
Kind kind_of(Bytes bytes, const fs::path& path) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), std::min<std::size_t>(bytes.size(), 8));
  if (text.starts_with("PK") || path.extension() == ".npz") return Kind::kNpz;
  if (text.starts_with("\x93NUMPY") || path.extension() == ".npy") return Kind::kNpy;
  return Kind::kList;
}

Result<InputFile> read(const fs::path& path, const std::vector<Port>& inputs) {
  HTPIPE_TRY(const auto file, MappedFile::open(path));
  const Kind kind = kind_of(file->bytes(), path);
  if (kind == Kind::kList) return from_list(path, inputs);
  std::vector<NamedTensor> arrays;
  if (kind == Kind::kNpz) {
    HTPIPE_TRY(arrays, read_npz(path));
  } else {
    if (inputs.size() != 1) {
      return fail(Error(Code::kDataFormat, fmt::format("one array for a model with {} inputs", inputs.size()))
                      .with_hint(fmt::format("Give an .npz with the arrays {}.", names_of(inputs))));
    }
    HTPIPE_TRY(Tensor tensor, read_npy(path));
    arrays.push_back({inputs.front().name, std::move(tensor)});
  }
  InputFile result;
  HTPIPE_TRY(result.samples, from_arrays(std::move(arrays), inputs));
  return result;
}

}  // namespace

Result<InputFile> read_inputs(const fs::path& path, const std::vector<Port>& inputs) {
  auto result = read(path, inputs);
  if (!result) {
    if (result.error().place.file.empty()) result.error().place.file = path.string();
    return result;
  }
  if (result->samples.count < 1) {
    return fail(Error(Code::kDataTooFew, "no samples").in_file(path.string()).with_hint("Give one sample at least."));
  }
  return result;
}

}  // namespace htpipe
