// graph.json and weights.bin.
#include "qnn/spec_io.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/io.h"
#include "base/json.h"
#include "qnn/report_json.h"
#include "tensor/checked_size.h"

namespace htpipe::qnn {
namespace {

constexpr const char* kFormat = "htpipe-qnn-graph";
constexpr int kVersion = 1;
constexpr const char* kGraphFile = "graph.json";
constexpr const char* kWeightsFile = "weights.bin";
constexpr std::uint64_t kAlignment = 64;

constexpr std::array<std::pair<TensorRole, const char*>, 4> kRoles = {{
    {TensorRole::kInput, "input"},
    {TensorRole::kOutput, "output"},
    {TensorRole::kNative, "native"},
    {TensorRole::kStatic, "static"},
}};

constexpr std::size_t kHole = 64 * 1024;  ///< zeros of this size are not written

bool all_zero(Bytes bytes) {
  return bytes.empty() ||
         (bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

/// Weights that nobody has read are zeros (quant/assume.h), gigabytes of them: they become holes of the file.
class WeightsWriter {
 public:
  explicit WeightsWriter(const std::filesystem::path& path)
      : path_(path), file_(path, std::ios::binary | std::ios::trunc) {}

  /// Appends at an aligned offset and returns it.
  std::uint64_t add(Bytes bytes) {
    static constexpr std::array<char, kAlignment> kZeros{};
    const std::uint64_t gap = (kAlignment - offset_ % kAlignment) % kAlignment;
    file_.write(kZeros.data(), static_cast<std::streamsize>(gap));
    offset_ += gap;
    const std::uint64_t at = offset_;
    for (std::size_t begin = 0; begin < bytes.size(); begin += kHole) {
      const Bytes piece = bytes.subspan(begin, std::min(kHole, bytes.size() - begin));
      if (piece.size() == kHole && all_zero(piece)) {
        file_.seekp(static_cast<std::streamoff>(kHole), std::ios::cur);
      } else {
        file_.write(reinterpret_cast<const char*>(piece.data()), static_cast<std::streamsize>(piece.size()));
      }
    }
    offset_ += bytes.size();
    return at;
  }
  [[nodiscard]] bool close() {
    file_.close();
    if (!file_.good()) return false;
    std::error_code error;
    std::filesystem::resize_file(path_, offset_, error);  // a hole at the end
    return !error;
  }

 private:
  std::filesystem::path path_;
  std::ofstream file_;
  std::uint64_t offset_ = 0;
};

// JSON has no infinities, but clamp bounds are often infinite.
Json json_of(float value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json json_of(const ParamSpec& param, WeightsWriter& weights) {
  Json json{{"name", param.name}};
  struct Writer {
    Json& out;
    WeightsWriter& weights_file;
    void operator()(bool value) const { out["bool"] = value; }
    void operator()(std::uint32_t value) const { out["u32"] = value; }
    void operator()(std::int32_t value) const { out["i32"] = value; }
    void operator()(float value) const { out["f32"] = json_of(value); }
    void operator()(const std::string& value) const { out["string"] = value; }
    void operator()(const Tensor& value) const {
      out["tensor"] = type_to_json(value.type());
      out["offset"] = weights_file.add(value.bytes());
    }
  };
  std::visit(Writer{json, weights}, param.value);
  return json;
}

Result<Tensor> data_at(const Json& json, TensorType type, const std::shared_ptr<const MappedFile>& weights) {
  const auto offset = json.at("offset").get<std::uint64_t>();
  const auto checked = checked_size_bytes(type.shape, type.dtype);
  if (!checked) return fail(Code::kJsonShape, fmt::format("absurd shape {}", to_string(type.shape)));
  const std::uint64_t size = *checked;
  const std::uint64_t available = weights->bytes().size();
  if (offset % kAlignment != 0) return fail(Code::kJsonShape, fmt::format("offset {} is not aligned", offset));
  if (offset > available || size > available - offset) {
    return fail(Code::kFileTruncated, fmt::format("{} bytes at {} of {}", size, offset, available));
  }
  if (size == 0) return Tensor(std::move(type));
  return Tensor(std::move(type), weights, weights->bytes().data() + offset);
}

float float_from(const Json& json) {
  if (json.is_number()) return json.get<float>();
  const auto text = json.get<std::string>();
  if (text == "inf") return std::numeric_limits<float>::infinity();
  if (text == "-inf") return -std::numeric_limits<float>::infinity();
  if (text == "nan") return std::numeric_limits<float>::quiet_NaN();
  throw Json::other_error::create(501, "not a number", nullptr);
}

Result<ParamSpec> param_from(const Json& json, const std::shared_ptr<const MappedFile>& weights) {
  ParamSpec param;
  param.name = json.at("name").get<std::string>();
  if (json.contains("bool")) {
    param.value = json.at("bool").get<bool>();
  } else if (json.contains("u32")) {
    param.value = json.at("u32").get<std::uint32_t>();
  } else if (json.contains("i32")) {
    param.value = json.at("i32").get<std::int32_t>();
  } else if (json.contains("f32")) {
    param.value = float_from(json.at("f32"));
  } else if (json.contains("string")) {
    param.value = json.at("string").get<std::string>();
  } else {
    HTPIPE_TRY(param.value, data_at(json, type_from_json(json.at("tensor")), weights));
  }
  return param;
}

Result<TensorSpec> tensor_from(const Json& json, const std::shared_ptr<const MappedFile>& weights) {
  TensorSpec tensor;
  tensor.name = json.at("name").get<std::string>();
  const auto role = json.at("role").get<std::string>();
  bool known = false;
  for (const auto& [value, name] : kRoles) {
    if (role == name) {
      tensor.role = value;
      known = true;
    }
  }
  if (!known) return fail(Code::kJsonShape, fmt::format("tensor {} has the unknown role {}", tensor.name, role));
  tensor.type = type_from_json(json);
  if (tensor.role == TensorRole::kStatic) {
    HTPIPE_TRY(tensor.data, data_at(json, tensor.type, weights));
  }
  return tensor;
}

Result<GraphSpec> graph_from(const Json& json, const std::shared_ptr<const MappedFile>& weights) {
  if (json.at("format").get<std::string>() != kFormat || json.at("version").get<int>() != kVersion) {
    return fail(Code::kJsonShape, "not a QNN graph of this version of htpipe");
  }
  GraphSpec graph;
  graph.name = json.at("name").get<std::string>();
  for (const Json& from : json.at("tensors")) {
    HTPIPE_TRY(TensorSpec tensor, tensor_from(from, weights));
    graph.tensors.push_back(std::move(tensor));
  }
  for (const Json& from : json.at("ops")) {
    OpSpec op;
    op.name = from.at("name").get<std::string>();
    op.type = from.at("type").get<std::string>();
    op.inputs = from.at("inputs").get<std::vector<std::string>>();
    op.outputs = from.at("outputs").get<std::vector<std::string>>();
    for (const Json& param : from.at("params")) {
      HTPIPE_TRY(ParamSpec value, param_from(param, weights));
      op.params.push_back(std::move(value));
    }
    graph.ops.push_back(std::move(op));
  }
  return graph;
}

}  // namespace

Status write_spec(const std::filesystem::path& folder, const GraphSpec& graph) {
  HTPIPE_CHECK_OK(make_folder(folder));
  WeightsWriter weights(folder / kWeightsFile);
  Json json{{"format", kFormat}, {"version", kVersion}, {"name", graph.name}};
  Json& tensors = json["tensors"] = Json::array();
  for (const TensorSpec& tensor : graph.tensors) {
    Json entry{{"name", tensor.name}};
    for (const auto& [role, name] : kRoles) {
      if (tensor.role == role) entry["role"] = name;
    }
    entry.update(type_to_json(tensor.type));
    if (tensor.role == TensorRole::kStatic) entry["offset"] = weights.add(tensor.data.bytes());
    tensors.push_back(std::move(entry));
  }
  Json& ops = json["ops"] = Json::array();
  for (const OpSpec& op : graph.ops) {
    Json params = Json::array();
    for (const ParamSpec& param : op.params) params.push_back(json_of(param, weights));
    ops.push_back(Json{{"name", op.name},
                       {"type", op.type},
                       {"params", std::move(params)},
                       {"inputs", op.inputs},
                       {"outputs", op.outputs}});
  }
  if (!weights.close()) {
    return fail(Error(Code::kOutputUnwritable, std::strerror(errno)).in_file((folder / kWeightsFile).string()));
  }
  return write_json(folder / kGraphFile, json);
}

Result<GraphSpec> read_spec(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kGraphFile;
  HTPIPE_TRY(const Json json, read_json(path));
  HTPIPE_TRY(const auto weights, MappedFile::open(folder / kWeightsFile));
  try {
    auto graph = graph_from(json, weights);
    if (!graph) return fail(std::move(graph.error()).in_file(path.string()));
    return graph;
  } catch (const Json::exception& error) {
    return fail(Error(Code::kJsonShape, error.what()).in_file(path.string()));
  }
}

}  // namespace htpipe::qnn
