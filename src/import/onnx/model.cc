#include "import/onnx/model.h"

#include <fmt/core.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <array>
#include <charconv>
#include <cstring>
#include <limits>

#include "tensor/checked_size.h"

namespace htpipe::onnx_import {
namespace {

struct TypeRow {
  std::int32_t data_type;
  DType dtype;
  int bits;  ///< 0 = as wide as its storage
};
constexpr std::array<TypeRow, 17> kTypes = {{
    {onnx::TensorProto::FLOAT, DType::kF32, 0},
    {onnx::TensorProto::UINT8, DType::kU8, 0},
    {onnx::TensorProto::INT8, DType::kI8, 0},
    {onnx::TensorProto::UINT16, DType::kU16, 0},
    {onnx::TensorProto::INT16, DType::kI16, 0},
    {onnx::TensorProto::INT32, DType::kI32, 0},
    {onnx::TensorProto::INT64, DType::kI64, 0},
    {onnx::TensorProto::BOOL, DType::kBool, 0},
    {onnx::TensorProto::FLOAT16, DType::kF16, 0},
    {onnx::TensorProto::DOUBLE, DType::kF64, 0},
    {onnx::TensorProto::UINT32, DType::kU32, 0},
    {onnx::TensorProto::UINT64, DType::kU64, 0},
    {onnx::TensorProto::BFLOAT16, DType::kBF16, 0},
    {onnx::TensorProto::UINT4, DType::kU8, 4},
    {onnx::TensorProto::INT4, DType::kI8, 4},
    {onnx::TensorProto::UINT2, DType::kU8, 2},
    {onnx::TensorProto::INT2, DType::kI8, 2},
}};

const TypeRow* row_of(std::int32_t data_type) {
  for (const TypeRow& row : kTypes) {
    if (row.data_type == data_type) return &row;
  }
  return nullptr;
}

tl::unexpected<Error> bad(const onnx::TensorProto& tensor, std::string why) {
  return fail(Error(Code::kOnnxInvalid, fmt::format("tensor {}: {}", tensor.name(), std::move(why))));
}

/// Bytes that `count` elements take in raw or external data.
std::size_t packed_bytes(std::size_t count, DType dtype, int bits) {
  return bits == 0 ? count * size_of(dtype) : (count * static_cast<std::size_t>(bits) + 7) / 8;
}

/// Elements of less than a byte, lowest bits first, each into a byte of its own.
Tensor unpack(TensorType type, int bits, const std::byte* source) {
  const bool is_signed = type.dtype == DType::kI8;
  Tensor tensor(std::move(type));
  const auto out = tensor.mutable_data<std::uint8_t>();
  const unsigned per_byte = 8U / static_cast<unsigned>(bits);
  const unsigned mask = (1U << bits) - 1U;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const unsigned shift = static_cast<unsigned>(i % per_byte) * static_cast<unsigned>(bits);
    unsigned value = (std::to_integer<unsigned>(source[i / per_byte]) >> shift) & mask;
    if (is_signed && (value >> (bits - 1)) != 0) value |= ~mask;
    out[i] = static_cast<std::uint8_t>(value);
  }
  return tensor;
}

/// Raw little-endian bytes; borrowed where they are aligned.
Tensor from_raw(TensorType type, int bits, std::shared_ptr<const void> owner, const std::byte* source) {
  if (bits != 0) return unpack(std::move(type), bits, source);
  if (reinterpret_cast<std::uintptr_t>(source) % size_of(type.dtype) == 0) {
    return {std::move(type), std::move(owner), source};
  }
  Tensor tensor(std::move(type));
  std::memcpy(tensor.mutable_data<std::byte>().data(), source, tensor.bytes().size());
  return tensor;
}

template <typename To, typename Field>
Result<Tensor> from_field(const onnx::TensorProto& proto, TensorType type, const Field& field) {
  Tensor tensor(std::move(type));
  const auto out = tensor.mutable_data<To>();
  if (static_cast<std::size_t>(field.size()) != out.size()) {
    return bad(proto, fmt::format("{} elements for the shape {}", field.size(), to_string(tensor.shape())));
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<To>(field[static_cast<int>(i)]);
  return tensor;
}

Result<Tensor> from_fields(const onnx::TensorProto& proto, TensorType type, int bits) {
  if (bits != 0) {
    std::vector<std::byte> packed;
    for (const std::int32_t word : proto.int32_data()) packed.push_back(static_cast<std::byte>(word & 0xFF));
    if (packed.size() != packed_bytes(static_cast<std::size_t>(type.count()), type.dtype, bits)) {
      return bad(proto, fmt::format("{} bytes for the shape {}", packed.size(), to_string(type.shape)));
    }
    return unpack(std::move(type), bits, packed.data());
  }
  switch (type.dtype) {
    case DType::kF32:
      return from_field<float>(proto, std::move(type), proto.float_data());
    case DType::kF64:
      return from_field<double>(proto, std::move(type), proto.double_data());
    case DType::kI64:
      return from_field<std::int64_t>(proto, std::move(type), proto.int64_data());
    case DType::kU64:
      return from_field<std::uint64_t>(proto, std::move(type), proto.uint64_data());
    case DType::kU32:
      return from_field<std::uint32_t>(proto, std::move(type), proto.uint64_data());
    case DType::kI32:
      return from_field<std::int32_t>(proto, std::move(type), proto.int32_data());
    case DType::kI16:
    case DType::kU16:
    case DType::kF16:
    case DType::kBF16:
      return from_field<std::uint16_t>(proto, std::move(type), proto.int32_data());
    case DType::kI8:
    case DType::kU8:
    case DType::kBool:
      return from_field<std::uint8_t>(proto, std::move(type), proto.int32_data());
  }
  return bad(proto, "unknown data type");
}

Result<std::uint64_t> parse_number(const onnx::TensorProto& proto, const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    return fail(Code::kExternalData, fmt::format("tensor {}: \"{}\" is no offset or length", proto.name(), text));
  }
  return value;
}

}  // namespace

std::optional<DType> dtype_of(std::int32_t data_type) {
  const TypeRow* row = row_of(data_type);
  return row == nullptr ? std::nullopt : std::optional(row->dtype);
}

std::string data_type_name(std::int32_t data_type) {
  if (!onnx::TensorProto::DataType_IsValid(data_type)) return fmt::format("data type {}", data_type);
  return onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(data_type));
}

int narrow_bits(std::int32_t data_type) {
  const TypeRow* row = row_of(data_type);
  return row == nullptr ? 0 : row->bits;
}

Result<Model> Model::read(const std::filesystem::path& path) {
  HTPIPE_TRY(const auto file, MappedFile::open(path));
  return parse(file->bytes(), path);
}

Result<Model> Model::parse(Bytes bytes, const std::filesystem::path& path) {
  Model model;
  model.path_ = path;
  const auto invalid = [&path](std::string why) {
    return fail(Error(Code::kOnnxInvalid, std::move(why)).in_file(path.string()));
  };
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    return invalid("the file is larger than 2 GB: an ONNX model of that size keeps its weights in a data file");
  }
  auto proto = std::make_shared<onnx::ModelProto>();
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream coded(&stream);
  coded.SetRecursionLimit(200);
  if (!proto->ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage()) {
    return invalid("the file is no ONNX message, or it is cut off");
  }
  if (!proto->has_graph()) return invalid("the file holds no graph");
  if (proto->opset_import().empty() && proto->ir_version() >= 3) return invalid("the file names no opset");
  for (const auto& opset : proto->opset_import()) {
    if (!opset.domain().empty() && opset.domain() != "ai.onnx") continue;
    if (opset.version() < kOldestOpset || opset.version() > kNewestOpset) {
      return fail(Error(Code::kOnnxVersion,
                        fmt::format("opset {}; read are {} to {}", opset.version(), kOldestOpset, kNewestOpset))
                      .in_file(path.string()));
    }
  }
  model.proto_ = std::move(proto);
  return model;
}

Result<Tensor> Model::tensor(const onnx::TensorProto& tensor) const {
  const TypeRow* row = row_of(tensor.data_type());
  if (row == nullptr) {
    return fail(Code::kUnsupportedForm,
                fmt::format("tensor {} of type {}", tensor.name(), data_type_name(tensor.data_type())));
  }
  TensorType type{row->dtype, Shape(tensor.dims().begin(), tensor.dims().end()), std::nullopt};
  if (!checked_size_bytes(type.shape, type.dtype)) {
    return bad(tensor, fmt::format("the shape {} is negative or absurdly large", to_string(type.shape)));
  }
  if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return external(tensor, std::move(type), row->bits);
  if (!tensor.has_raw_data()) return from_fields(tensor, std::move(type), row->bits);
  const std::string& raw = tensor.raw_data();
  if (raw.size() != packed_bytes(static_cast<std::size_t>(type.count()), type.dtype, row->bits)) {
    return bad(tensor, fmt::format("{} bytes for the shape {}", raw.size(), to_string(type.shape)));
  }
  return from_raw(std::move(type), row->bits, proto_, reinterpret_cast<const std::byte*>(raw.data()));
}

Result<Tensor> Model::external(const onnx::TensorProto& tensor, TensorType type, int bits) const {
  const auto broken = [&tensor](std::string why) {
    return fail(Code::kExternalData, fmt::format("tensor {}: {}", tensor.name(), std::move(why)));
  };
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      HTPIPE_TRY(offset, parse_number(tensor, entry.value()));
    }
    if (entry.key() == "length") {
      HTPIPE_TRY(length, parse_number(tensor, entry.value()));
    }
  }
  const std::filesystem::path relative(location);
  bool leaves = location.empty() || relative.is_absolute();
  for (const auto& part : relative) leaves = leaves || part == "..";
  if (leaves) return broken(fmt::format("its location \"{}\" is not inside the model's folder", location));

  auto at = files_.find(location);
  if (at == files_.end()) {
    auto file = MappedFile::open(path_.parent_path() / relative);
    if (!file) return broken(fmt::format("{}: {}", location, file.error().message));
    at = files_.emplace(location, std::move(*file)).first;
  }
  const Bytes bytes = at->second->bytes();
  const std::size_t needed = packed_bytes(static_cast<std::size_t>(type.count()), type.dtype, bits);
  if (length && *length != needed)
    return broken(fmt::format("{} bytes for the shape {}", *length, to_string(type.shape)));
  if (offset > bytes.size() || bytes.size() - offset < needed) {
    return broken(fmt::format("{} bytes at {} of {}, which has {}", needed, offset, location, bytes.size()));
  }
  return from_raw(std::move(type), bits, at->second, bytes.data() + offset);
}

}  // namespace htpipe::onnx_import
