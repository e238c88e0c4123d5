// Conversion between TensorSpec and the C structs.
#include "qnn/tensor_abi.h"

#include <fmt/core.h>

#include <array>
#include <cstring>
#include <optional>

#include "base/check.h"
#include "tensor/block_expansion.h"

namespace htpipe::qnn {
namespace {

struct TypeRow {
  DType dtype;
  std::uint32_t plain;
  std::uint32_t quantised;  ///< 0 = cannot be quantised
};

constexpr std::array<TypeRow, 12> kTypes = {{
    {DType::kF64, abi::kFloat64, 0},
    {DType::kF32, abi::kFloat32, 0},
    {DType::kF16, abi::kFloat16, 0},
    {DType::kBF16, abi::kBfloat16, 0},
    {DType::kI64, abi::kInt64, 0},
    {DType::kI32, abi::kInt32, abi::kSfixed32},
    {DType::kI16, abi::kInt16, abi::kSfixed16},
    {DType::kI8, abi::kInt8, abi::kSfixed8},
    {DType::kU32, abi::kUint32, abi::kUfixed32},
    {DType::kU16, abi::kUint16, abi::kUfixed16},
    {DType::kU8, abi::kUint8, abi::kUfixed8},
    {DType::kBool, abi::kBool8, 0},
}};

std::uint32_t data_type_of(const TensorType& type) {
  for (const TypeRow& row : kTypes) {
    if (row.dtype != type.dtype) continue;
    const std::uint32_t chosen = type.encoding ? row.quantised : row.plain;
    HTPIPE_CHECK(chosen != 0, "an unquantisable type has an encoding");
    return chosen;
  }
  throw_bug(__FILE__, __LINE__, "dtype", "unknown data type");
}

std::optional<DType> dtype_of(std::uint32_t data_type) {
  for (const TypeRow& row : kTypes) {
    if (row.plain == data_type || row.quantised == data_type) return row.dtype;
  }
  return std::nullopt;
}

/// Scales per block in our order, for weights whose blocks run along the axis beside that of the channels.
std::optional<Encoding> blocks_from(const abi::BlockwiseExpansion& from, const Shape& shape) {
  const auto rank = static_cast<int>(shape.size());
  if (rank < 2 || from.axis < 0 || from.axis >= rank || from.block_scale_storage != 0) return std::nullopt;
  Encoding encoding;
  encoding.axis = from.axis + 1 < rank ? from.axis + 1 : from.axis - 1;
  encoding.bits = 4;
  const std::int64_t size = shape[static_cast<std::size_t>(encoding.axis)];
  const auto blocks = static_cast<std::int64_t>(from.blocks_per_axis);
  const std::int64_t channels = shape[static_cast<std::size_t>(from.axis)];
  if (blocks < 1 || size % blocks != 0 || channels > element_count(shape)) return std::nullopt;
  encoding.block = size / blocks;
  const bool channels_first = from.axis < encoding.axis;
  for (std::int64_t i = 0; i < channels * blocks; ++i) {
    const std::int64_t channel = channels_first ? i / blocks : i % channels;
    const std::int64_t block = channels_first ? i % blocks : i / channels;
    encoding.scales.push_back(from.scale_offsets[channel].scale *
                              static_cast<float>(from.block_scales[channel * blocks + block]));
    encoding.zero_points.push_back(0);
  }
  return encoding;
}

/// QNN keeps the number of bits only in the bit-width encodings; otherwise it is that of the storage.
std::optional<Encoding> encoding_from(const abi::QuantizeParams& from, DType dtype, const Shape& shape) {
  const int storage_bits = static_cast<int>(8 * size_of(dtype));
  Encoding encoding;
  encoding.bits = storage_bits;
  const auto add = [&encoding](float scale, std::int32_t offset) {
    encoding.scales.push_back(scale);
    encoding.zero_points.push_back(static_cast<std::int32_t>(0U - static_cast<std::uint32_t>(offset)));
  };
  switch (from.kind) {
    case abi::kScaleOffset:
      add(from.scale_offset.scale, from.scale_offset.offset);
      break;
    case abi::kBwScaleOffset:
      encoding.bits = static_cast<int>(from.bw.bits);
      add(from.bw.scale, from.bw.offset);
      break;
    case abi::kAxisScaleOffset:
      encoding.axis = from.axis.axis;
      for (std::uint32_t i = 0; i < from.axis.count; ++i) add(from.axis.values[i].scale, from.axis.values[i].offset);
      break;
    case abi::kBwAxisScaleOffset:
      encoding.bits = static_cast<int>(from.bw_axis.bits);
      encoding.axis = from.bw_axis.axis;
      for (std::uint32_t i = 0; i < from.bw_axis.count; ++i) {
        add(from.bw_axis.scales[i], from.bw_axis.offsets == nullptr ? 0 : from.bw_axis.offsets[i]);
      }
      break;
    case abi::kBlockwiseExpansion:
      return blocks_from(*from.blockwise, shape);
    default:
      return std::nullopt;
  }
  return encoding;
}

}  // namespace

abi::TensorKind kind_of(TensorRole role) {
  switch (role) {
    case TensorRole::kInput:
      return abi::kAppWrite;
    case TensorRole::kOutput:
      return abi::kAppRead;
    case TensorRole::kNative:
      return abi::kNative;
    case TensorRole::kStatic:
      return abi::kStatic;
  }
  throw_bug(__FILE__, __LINE__, "role", "unknown tensor role");
}

AbiTensor::AbiTensor(const TensorSpec& spec, abi::TensorKind kind) : name_(spec.name) {
  for (const std::int64_t dimension : spec.type.shape) dimensions_.push_back(static_cast<std::uint32_t>(dimension));
  value.version = 1;
  value.body.name = name_.c_str();
  value.body.kind = kind;
  value.body.data_type = data_type_of(spec.type);
  value.body.quantization.definition = abi::kUndefined;
  value.body.quantization.kind = abi::kUndefinedEncoding;
  if (spec.type.encoding) set_encoding(spec.type);
  value.body.rank = static_cast<std::uint32_t>(dimensions_.size());
  value.body.dimensions = dimensions_.data();
  value.body.memory_kind = abi::kRaw;
  if (kind == abi::kStatic) {
    // The interface takes a writable pointer for data that it only reads.
    value.body.buffer.data = const_cast<std::byte*>(spec.data.bytes().data());
    value.body.buffer.size = static_cast<std::uint32_t>(spec.data.bytes().size());
  }
}

void AbiTensor::set_blocks(const TensorType& type) {
  const auto expansion = block_expansion(type);
  HTPIPE_CHECK(static_cast<bool>(expansion), "the spec was not checked");
  block_scales_ = expansion->factors;
  for (const float scale : expansion->channel_scales) scale_offsets_.push_back({scale, 0});
  constexpr std::uint32_t kFactorBits = 4;
  blockwise_ = {
      expansion->channel_axis, scale_offsets_.data(), static_cast<std::uint32_t>(expansion->blocks), kFactorBits, 0,
      block_scales_.data()};
  value.body.quantization.kind = abi::kBlockwiseExpansion;
  value.body.quantization.blockwise = &blockwise_;
}

void AbiTensor::set_encoding(const TensorType& type) {
  const Encoding& encoding = *type.encoding;
  abi::QuantizeParams& out = value.body.quantization;
  if (encoding.per_block()) {
    out.definition = abi::kDefined;
    return set_blocks(type);
  }
  const bool whole_storage = static_cast<std::size_t>(encoding.bits) == 8 * size_of(type.dtype);
  const auto count = static_cast<std::uint32_t>(encoding.scales.size());
  out.definition = abi::kDefined;
  if (!encoding.per_channel()) {
    if (whole_storage) {
      out.kind = abi::kScaleOffset;
      out.scale_offset = {encoding.scale(), -encoding.zero_point()};
    } else {
      out.kind = abi::kBwScaleOffset;
      out.bw = {static_cast<std::uint32_t>(encoding.bits), encoding.scale(), -encoding.zero_point()};
    }
    return;
  }
  if (whole_storage) {
    for (std::size_t i = 0; i < count; ++i) {
      scale_offsets_.push_back({encoding.scales[i], -encoding.zero_points[i]});
    }
    out.kind = abi::kAxisScaleOffset;
    out.axis = {encoding.axis, count, scale_offsets_.data()};
  } else {
    scales_ = encoding.scales;
    for (const std::int32_t zero : encoding.zero_points) offsets_.push_back(-zero);
    out.kind = abi::kBwAxisScaleOffset;
    out.bw_axis = {static_cast<std::uint32_t>(encoding.bits), encoding.axis, count, scales_.data(), offsets_.data()};
  }
}

Result<TensorSpec> tensor_from(const abi::Tensor& tensor, std::vector<std::string>& notes) {
  const abi::TensorBody& body = tensor.body;
  TensorSpec spec;
  spec.name = body.name == nullptr ? "" : body.name;
  const auto dtype = dtype_of(body.data_type);
  if (!dtype) {
    return fail(
        Error(Code::kUnsupportedForm, fmt::format("tensor {} has the QNN data type {:#x}", spec.name, body.data_type)));
  }
  spec.type.dtype = *dtype;
  for (std::uint32_t axis = 0; axis < body.rank; ++axis) spec.type.shape.push_back(body.dimensions[axis]);
  switch (body.kind) {
    case abi::kAppWrite:
      spec.role = TensorRole::kInput;
      break;
    case abi::kAppRead:
    case abi::kAppReadWrite:
      spec.role = TensorRole::kOutput;
      break;
    case abi::kStatic:
      spec.role = TensorRole::kStatic;
      break;
    default:
      spec.role = TensorRole::kNative;
      break;
  }
  if (body.quantization.definition == abi::kDefined) {
    spec.type.encoding = is_integer(*dtype) ? encoding_from(body.quantization, *dtype, spec.type.shape) : std::nullopt;
    if (!spec.type.encoding) {
      notes.push_back(fmt::format("tensor {}: encoding of kind {} is not shown", spec.name, body.quantization.kind));
    }
  }
  if (spec.role == TensorRole::kStatic) {
    // A file decides both sizes, so they are compared before anything is copied.
    if (body.buffer.data == nullptr || body.buffer.size != spec.type.size_bytes()) {
      return fail(Error(Code::kShapeMismatch, fmt::format("tensor {} has {} bytes for the shape {}", spec.name,
                                                          body.buffer.size, to_string(spec.type.shape))));
    }
    spec.data = Tensor(spec.type);
    std::memcpy(spec.data.mutable_data<std::byte>().data(), body.buffer.data, body.buffer.size);
  }
  return spec;
}

Result<ParamSpec> scalar_from(const std::string& name, const abi::Scalar& scalar) {
  ParamSpec param{name, {}};
  switch (scalar.data_type) {
    case abi::kBool8:
      param.value = scalar.u8 != 0;
      break;
    case abi::kUint8:
      param.value = static_cast<std::uint32_t>(scalar.u8);
      break;
    case abi::kUint16:
      param.value = static_cast<std::uint32_t>(scalar.u16);
      break;
    case abi::kUint32:
      param.value = scalar.u32;
      break;
    case abi::kInt8:
      param.value = static_cast<std::int32_t>(scalar.i8);
      break;
    case abi::kInt16:
      param.value = static_cast<std::int32_t>(scalar.i16);
      break;
    case abi::kInt32:
      param.value = scalar.i32;
      break;
    case abi::kFloat32:
      param.value = scalar.f32;
      break;
    case abi::kString:
      param.value = std::string(scalar.text == nullptr ? "" : scalar.text);
      break;
    default:
      return fail(Code::kUnsupportedForm,
                  fmt::format("parameter {} has the QNN data type {:#x}", name, scalar.data_type));
  }
  return param;
}

}  // namespace htpipe::qnn
