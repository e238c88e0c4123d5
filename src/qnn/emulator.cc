// graphExecute, sample by sample.
#include "qnn/emulator.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <new>

#include "qnn/tensor_abi.h"
#include "qnn/vendor_log.h"

namespace htpipe::qnn {
namespace {

constexpr std::size_t kBufferAlignment = 128;  // an HVX vector

struct AlignedDelete {
  void operator()(std::byte* bytes) const { ::operator delete[](bytes, std::align_val_t(kBufferAlignment)); }
};
using Buffer = std::unique_ptr<std::byte[], AlignedDelete>;

Buffer make_buffer(std::size_t size) {
  auto* bytes =
      static_cast<std::byte*>(::operator new[](std::max<std::size_t>(size, 1), std::align_val_t(kBufferAlignment)));
  std::memset(bytes, 0, size);
  return Buffer(bytes);
}

/// A port with its buffer, ready to be passed to graphExecute.
struct BoundPort {
  explicit BoundPort(const GraphPort& port, abi::TensorKind kind)
      : size(port.spec.type.size_bytes()), buffer(make_buffer(size)), tensor(port.spec, kind) {
    tensor.value.body.id = port.id;
    tensor.value.body.buffer.data = buffer.get();
    tensor.value.body.buffer.size = static_cast<std::uint32_t>(size);
  }
  std::size_t size;
  Buffer buffer;
  AbiTensor tensor;
};

/// A file of equally long records that several processes fill.
class OutputFile {
 public:
  explicit OutputFile(std::filesystem::path path)
      : path_(std::move(path)), file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {}
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile() {
    if (file_ >= 0) ::close(file_);
  }
  Status write(Bytes record, std::int64_t number) {
    std::size_t done = 0;
    while (done < record.size()) {
      const auto at = static_cast<off_t>(static_cast<std::size_t>(number) * record.size() + done);
      const ssize_t written = ::pwrite(file_, record.data() + done, record.size() - done, at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return fail(Error(Code::kOutputUnwritable, std::strerror(errno)).in_file(path_.string()));
      done += static_cast<std::size_t>(written);
    }
    return {};
  }

 private:
  std::filesystem::path path_;
  int file_;
};

tl::unexpected<Error> data_error(Code code, const std::string& input, std::string message) {
  return fail(Error(code, fmt::format("input {} {}", input, message)));
}

/// Samples that `given` holds of `port`.
Result<std::int64_t> samples_of(const GraphPort& port, const SampleFile& given) {
  const TensorType& want = port.spec.type;
  const std::string& name = port.spec.name;
  if (given.type.dtype != want.dtype) {
    return data_error(Code::kDataDtype, name,
                      fmt::format("is {}, the graph takes {}", name_of(given.type.dtype), name_of(want.dtype)));
  }
  if (given.type.encoding && want.encoding && given.type.encoding != want.encoding) {
    return data_error(Code::kDataDtype, name,
                      fmt::format("is {}, the graph takes {}", to_string(given.type), to_string(want)));
  }
  Shape rest = given.type.shape;
  const std::int64_t batch = want.shape.empty() ? 1 : want.shape.front();
  const bool same_rank = want.shape.empty() ? rest.size() == 1 : rest.size() == want.shape.size();
  bool fits = same_rank && batch > 0 && rest.front() >= 0 && rest.front() % batch == 0;
  for (std::size_t axis = 1; fits && axis < want.shape.size(); ++axis) fits = rest[axis] == want.shape[axis];
  if (!fits) {
    return data_error(Code::kDataShape, name,
                      fmt::format("has the shape {}, the graph takes samples of {}", to_string(given.type.shape),
                                  to_string(want.shape)));
  }
  const std::int64_t samples = rest.front() / batch;
  if (given.data->bytes().size() != static_cast<std::size_t>(samples) * want.size_bytes()) {
    return data_error(Code::kDataShape, name, "has another number of bytes than its shape says");
  }
  return samples;
}

}  // namespace

Result<std::int64_t> count_samples(const GraphHandle& graph, const std::map<std::string, SampleFile>& inputs) {
  std::int64_t samples = -1;
  for (const GraphPort& port : graph.inputs) {
    const auto given = inputs.find(port.spec.name);
    if (given == inputs.end()) return data_error(Code::kDataShape, port.spec.name, "is missing");
    HTPIPE_TRY(const std::int64_t count, samples_of(port, given->second));
    if (samples >= 0 && count != samples) {
      return data_error(Code::kDataShape, port.spec.name,
                        fmt::format("has {} samples, another has {}", count, samples));
    }
    samples = count;
  }
  for (const auto& [name, file] : inputs) {
    bool known = false;
    for (const GraphPort& port : graph.inputs) known = known || port.spec.name == name;
    if (!known) return data_error(Code::kDataShape, name, "is no input of the graph");
  }
  return samples < 0 ? 1 : samples;
}

Status run_samples(const abi::BackendTable& api, const GraphHandle& graph,
                   const std::map<std::string, SampleFile>& inputs, std::int64_t first, std::int64_t end,
                   const std::filesystem::path& folder, Steps& steps) {
  std::deque<BoundPort> sources;
  std::deque<BoundPort> sinks;
  std::deque<OutputFile> files;
  std::vector<abi::Tensor> in;
  std::vector<abi::Tensor> out;
  for (const GraphPort& port : graph.inputs) in.push_back(sources.emplace_back(port, abi::kAppWrite).tensor.value);
  for (const GraphPort& port : graph.outputs) {
    out.push_back(sinks.emplace_back(port, abi::kAppRead).tensor.value);
    files.emplace_back(folder / fmt::format("output_{}.bin", files.size()));
  }
  for (std::int64_t sample = first; sample < end; ++sample) {
    steps.begin("execute", std::to_string(sample));
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const Bytes all = inputs.at(graph.inputs[i].spec.name).data->bytes();
      const std::size_t size = sources[i].size;
      if (size > 0) std::memcpy(sources[i].buffer.get(), all.data() + static_cast<std::size_t>(sample) * size, size);
    }
    vendor_log::begin_call();
    const auto code = api.graph_execute(graph.graph, in.data(), static_cast<std::uint32_t>(in.size()), out.data(),
                                        static_cast<std::uint32_t>(out.size()), nullptr, nullptr);
    if (code != abi::kSuccess) {
      return fail(vendor_error("graphExecute", code).with_note(fmt::format("at sample {}", sample)));
    }
    for (std::size_t i = 0; i < sinks.size(); ++i) {
      HTPIPE_CHECK_OK(files[i].write({sinks[i].buffer.get(), sinks[i].size}, sample));
    }
  }
  return {};
}

}  // namespace htpipe::qnn
