#include "export/onnx/export.h"

#include <fmt/core.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <limits>
#include <vector>

#include "base/file_writer.h"
#include "export/onnx/exporter.h"

namespace htpipe {
namespace onnx_export {
namespace {

namespace fs = std::filesystem;

/// Protobuf's own limit is 2 GB; nodes and names need some of it.
constexpr std::uint64_t kMaxInline = std::uint64_t{1900} << 20;
/// Large tensors begin at a page, so that they can be mapped; the others at a cache line.
constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kLarge = std::uint64_t{1} << 20;

/// The bytes of an initializer as they stand in the file: one tensor at a time is rewritten, none is copied otherwise.
class PayloadBytes {
 public:
  explicit PayloadBytes(const Payload& payload)
      : tensor_(payload.perm.empty() ? payload.tensor : transpose(payload.tensor, payload.perm)) {
    if (!payload.nibbles) return;
    const Bytes all = tensor_.bytes();
    packed_.resize(payload.bytes);
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto low = all[i] & std::byte{15};
      packed_[i / 2] |= i % 2 == 0 ? low : low << 4;
    }
  }
  [[nodiscard]] Bytes bytes() const { return packed_.empty() ? tensor_.bytes() : Bytes(packed_); }

 private:
  Tensor tensor_;
  std::vector<std::byte> packed_;
};

void store_inline(Exporter& exporter, const Payload& payload) {
  const PayloadBytes bytes(payload);
  exporter.initializer(payload).set_raw_data(bytes.bytes().data(), bytes.bytes().size());
}

void point_to(onnx::TensorProto& tensor, const std::string& location, std::uint64_t offset, std::uint64_t length) {
  const auto add = [&tensor](const char* key, std::string value) {
    auto& entry = *tensor.add_external_data();
    entry.set_key(key);
    entry.set_value(std::move(value));
  };
  add("location", location);
  add("offset", std::to_string(offset));
  add("length", std::to_string(length));
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
}

/// Writes the large initializers behind each other; the others go into the message.
Status store_beside(Exporter& exporter, const fs::path& file, std::size_t smallest) {
  HTPIPE_TRY(FileWriter out, FileWriter::create(file));
  std::uint64_t offset = 0;
  const std::vector<std::byte> zeros(kPage);
  for (const Payload& payload : exporter.payloads()) {
    if (payload.bytes < smallest || payload.bytes == 0) {
      store_inline(exporter, payload);
      continue;
    }
    const std::uint64_t alignment = payload.bytes > kLarge ? kPage : kLine;
    const std::uint64_t gap = (alignment - offset % alignment) % alignment;
    HTPIPE_CHECK_OK(out.write(Bytes(zeros).first(static_cast<std::size_t>(gap))));
    offset += gap;
    const PayloadBytes bytes(payload);
    HTPIPE_CHECK_OK(out.write(bytes.bytes()));
    point_to(exporter.initializer(payload), file.filename().string(), offset, payload.bytes);
    offset += payload.bytes;
  }
  return out.close();
}

/// Protobuf's way into a FileWriter; remembers the first error.
class MessageStream : public google::protobuf::io::CopyingOutputStream {
 public:
  explicit MessageStream(FileWriter& out) : out_(out) {}
  bool Write(const void* buffer, int size) override {
    if (!status) return false;
    status = out_.write({static_cast<const std::byte*>(buffer), static_cast<std::size_t>(size)});
    return status.has_value();
  }
  Status status;

 private:
  FileWriter& out_;
};

Status write_message(const onnx::ModelProto& model, const fs::path& file) {
  if (model.ByteSizeLong() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    return fail(Code::kUnsupportedForm, "the model is larger than 2 GB without its weights");
  }
  HTPIPE_TRY(FileWriter out, FileWriter::create(file));
  MessageStream stream(out);
  {
    google::protobuf::io::CopyingOutputStreamAdaptor adaptor(&stream);
    google::protobuf::io::CodedOutputStream coded(&adaptor);
    coded.SetSerializationDeterministic(true);
    model.SerializeWithCachedSizes(&coded);
  }
  HTPIPE_CHECK_OK(stream.status);
  return out.close();
}

std::uint64_t size_on_disk(const fs::path& file) {
  std::error_code ignored;
  const std::uintmax_t size = fs::file_size(file, ignored);
  return ignored ? 0 : size;
}

}  // namespace
}  // namespace onnx_export

Result<OnnxFile> export_onnx(const Graph& graph, const std::filesystem::path& path, const OnnxOptions& options) {
  using namespace onnx_export;
  Exporter exporter(graph, options);
  HTPIPE_CHECK_OK(exporter.build());
  std::uint64_t bytes = 0;
  for (const Payload& payload : exporter.payloads()) bytes += payload.bytes;
  // Both files are made under their own names in a folder beside the final place, so that they can be read there.
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path(".");
  HTPIPE_TRY(const TemporaryFolder folder, TemporaryFolder::create(parent));
  const fs::path model = folder.path() / path.filename();
  fs::path data = model;
  data += ".data";
  OnnxFile written{path, {}, 0, exporter.model()->graph().node_size()};
  const auto at_path = [&path](Status status) -> Status {
    if (!status && status.error().code == Code::kOutputUnwritable) status.error().place.file = path.string();
    return status;
  };
  if (options.external_data || bytes > kMaxInline) {
    HTPIPE_CHECK_OK(at_path(store_beside(exporter, data, options.smallest_external)));
    written.data = path;
    written.data += ".data";
  } else {
    for (const Payload& payload : exporter.payloads()) store_inline(exporter, payload);
  }
  HTPIPE_CHECK_OK(at_path(write_message(*exporter.model(), model)));
  written.bytes = size_on_disk(model) + (written.data.empty() ? 0 : size_on_disk(data));
  if (options.check) HTPIPE_CHECK_OK(options.check(model));
  if (!written.data.empty()) HTPIPE_CHECK_OK(move_file(data, written.data));
  HTPIPE_CHECK_OK(move_file(model, path));
  return written;
}

Result<std::shared_ptr<onnx::ModelProto>> to_onnx(const Graph& graph, const OnnxOptions& options) {
  onnx_export::Exporter exporter(graph, options);
  HTPIPE_CHECK_OK(exporter.build());
  for (const onnx_export::Payload& payload : exporter.payloads()) onnx_export::store_inline(exporter, payload);
  return exporter.model();
}

}  // namespace htpipe
