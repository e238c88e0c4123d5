#include "pipeline/value_sink.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <utility>

#include "base/file_writer.h"
#include "base/io.h"
#include "tensor/checked_size.h"
#include "tensor/npz_stream.h"

namespace htpipe {
namespace {

namespace fs = std::filesystem;

class NpzSink : public ValueSink {
 public:
  NpzSink(NpzStream stream, bool native) : stream_(std::move(stream)), native_(native) {}
  Status add(std::size_t port, const Tensor& value) override {
    return stream_.append(port, shown(value, native_).bytes());
  }
  Status end_sample() override { return {}; }
  Status finish() override { return stream_.finish(); }

 private:
  NpzStream stream_;
  bool native_;
};

class RawSink : public ValueSink {
 public:
  RawSink(fs::path folder, std::vector<std::string> names, bool native)
      : folder_(std::move(folder)), names_(std::move(names)), native_(native) {}

  Status add(std::size_t port, const Tensor& value) override {
    if (!sample_folder_) {
      HTPIPE_TRY(sample_folder_, TemporaryFolder::create(folder_));
    }
    HTPIPE_TRY(FileWriter file, FileWriter::create(sample_folder_->path() / names_[port]));
    HTPIPE_CHECK_OK(file.write(shown(value, native_).bytes()));
    return file.close();
  }

  Status end_sample() override {
    const fs::path final_name = folder_ / fmt::format("Result_{}", sample_++);
    if (!sample_folder_) return {};
    std::error_code error;
    fs::permissions(sample_folder_->path(), fs::perms(0755), error);
    fs::remove_all(final_name, error);
    HTPIPE_CHECK_OK(move_file(sample_folder_->path(), final_name));
    sample_folder_.reset();  // its name is gone, so nothing is removed
    return {};
  }

  Status finish() override { return {}; }

 private:
  fs::path folder_;
  std::vector<std::string> names_;
  bool native_;
  std::int64_t sample_ = 0;
  std::optional<TemporaryFolder> sample_folder_;
};

}  // namespace

TensorType shown_type(const TensorType& type, bool native) {
  const bool real = is_float(type.dtype) || type.encoding.has_value();
  const bool keep = native ? type.dtype != DType::kBF16 : !real;
  return {keep ? type.dtype : DType::kF32, type.shape, std::nullopt};
}

Tensor shown(const Tensor& value, bool native) {
  const TensorType type = shown_type(value.type(), native);
  if (type.dtype == value.dtype()) return value.with_type(type);
  return Tensor::from<float>(type, to_floats(value));
}

Result<std::unique_ptr<ValueSink>> npz_sink(const fs::path& path, const std::vector<Port>& ports, std::int64_t samples,
                                            bool native) {
  std::vector<NpzStream::Array> arrays;
  for (const Port& port : ports) {
    const TensorType type = shown_type(port.type, native);
    Shape shape = type.shape;
    if (shape.empty()) shape.push_back(1);
    if (!checked_size_bytes({samples, element_count(shape)}, type.dtype)) {
      return fail(Code::kDataShape, fmt::format("{} samples of {} are too many for a file", samples, port.name));
    }
    shape.front() *= samples;
    arrays.push_back({port.name, type.dtype, std::move(shape)});
  }
  HTPIPE_TRY(NpzStream stream, NpzStream::create(path, arrays));
  return std::make_unique<NpzSink>(std::move(stream), native);
}

std::vector<std::string> raw_names(const std::vector<Port>& ports) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (const Port& port : ports) {
    std::string name = port.name.substr(0, 200);
    std::replace_if(
        name.begin(), name.end(),
        [](unsigned char c) { return std::isalnum(c) == 0 && c != '_' && c != '-' && c != '.'; }, '_');
    std::string file = name + ".raw";
    for (int i = 2; !taken.insert(file).second; ++i) file = fmt::format("{}_{}.raw", name, i);
    names.push_back(std::move(file));
  }
  return names;
}

Result<std::unique_ptr<ValueSink>> raw_sink(const fs::path& folder, const std::vector<Port>& ports, bool native) {
  HTPIPE_CHECK_OK(make_folder(folder));
  remove_left_overs(folder, "htpipe-");
  return std::make_unique<RawSink>(folder, raw_names(ports), native);
}

}  // namespace htpipe
