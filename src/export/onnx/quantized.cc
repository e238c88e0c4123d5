#include "export/onnx/quantized.h"

#include <fmt/core.h>

#include <algorithm>

namespace htpipe::onnx_export {
namespace {

constexpr std::int64_t kSmallTypes = 21;  // opset with 4 and 16 bits, and with blocks

bool has_zeros_only(const Encoding& encoding) {
  return std::all_of(encoding.zero_points.begin(), encoding.zero_points.end(), [](std::int32_t z) { return z == 0; });
}

Names parameters(Writer& writer, const std::string& value, const TensorType& type) {
  const Encoding& encoding = *type.encoding;
  const Shape shape = scale_shape(encoding, type.shape);
  const Tensor scales = Tensor::from<float>({DType::kF32, shape, std::nullopt}, encoding.scales);
  Names names = {value, writer.initializer(value + "_scale", scales)};
  if (type.dtype == DType::kI32) return names;  // has none in ONNX
  Tensor zeros({type.dtype, shape, std::nullopt});
  TensorType zero_type = zeros.type();
  if (is_nibbles(type)) zero_type.encoding = Encoding::per_tensor(1, 0, 4);
  for (std::size_t i = 0; i < encoding.zero_points.size(); ++i) {
    const std::int32_t zero = encoding.zero_points[i];
    switch (size_of(type.dtype)) {
      case 1:
        zeros.mutable_data<std::uint8_t>()[i] = static_cast<std::uint8_t>(zero);
        break;
      default:
        zeros.mutable_data<std::uint16_t>()[i] = static_cast<std::uint16_t>(zero);
    }
  }
  names.push_back(writer.initializer(value + "_zero_point", zeros.with_type(zero_type)));
  return names;
}

Settings axis_of(const TensorType& type) {
  const Encoding& encoding = *type.encoding;
  if (encoding.per_tensor()) return {};
  Settings settings = {{"axis", std::int64_t{encoding.axis}}};
  if (encoding.per_block()) settings.emplace_back("block_size", encoding.block);
  return settings;
}

}  // namespace

bool is_nibbles(const TensorType& type) {
  return type.encoding && type.encoding->bits == 4 && (type.dtype == DType::kI8 || type.dtype == DType::kU8);
}

std::int32_t stored_type_of(const TensorType& type) {
  if (is_nibbles(type)) return type.dtype == DType::kI8 ? onnx::TensorProto::INT4 : onnx::TensorProto::UINT4;
  return data_type_of(type.dtype);
}

Status check_encoding(const Value& value, std::int64_t opset) {
  const TensorType& type = value.type;
  const auto refuse = [&](std::string why) {
    return fail(Error(Code::kUnsupportedForm, fmt::format("{} as ONNX: {}", to_string(type), std::move(why)))
                    .at_node(value.name));
  };
  const DType dtype = type.dtype;
  const bool wide = dtype == DType::kI16 || dtype == DType::kU16;
  if (dtype == DType::kI32) {
    if (!value.is_constant()) return refuse("QuantizeLinear does not make 32-bit integers");
    if (!has_zeros_only(*type.encoding)) return refuse("32-bit integers have no zero point");
    return {};
  }
  if (dtype != DType::kI8 && dtype != DType::kU8 && !wide) return refuse("no stored integers of that type");
  if ((wide || is_nibbles(type)) && opset < kSmallTypes) {
    return refuse(fmt::format("{} bits need opset {}, not {}", wide ? 16 : 4, kSmallTypes, opset));
  }
  if (type.encoding->per_block() && opset < kSmallTypes) {
    return refuse(fmt::format("scales of blocks need opset {}, not {}", kSmallTypes, opset));
  }
  const int bits = wide ? 16 : is_nibbles(type) ? 4 : 8;
  if (type.encoding->bits != bits && !value.is_constant()) {
    return refuse(fmt::format("QuantizeLinear does not clamp to {} bits", type.encoding->bits));
  }
  return {};
}

void quantize(Writer& writer, const std::string& real, const TensorType& type, const std::string& output) {
  Names inputs = parameters(writer, output, type);
  inputs[0] = real;
  writer.node("QuantizeLinear", inputs, {output}, axis_of(type));
}

void dequantize(Writer& writer, const std::string& stored, const TensorType& type, const std::string& output) {
  writer.node("DequantizeLinear", parameters(writer, stored, type), {output}, axis_of(type));
}

int reshaped_axis(const TensorType& type, const Shape& shape) {
  if (!type.encoding || type.encoding->per_tensor()) return -1;
  const auto in_front = [](const Shape& sizes, std::size_t axis) {
    return element_count(Shape(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(axis)));
  };
  const auto axis = static_cast<std::size_t>(type.encoding->axis);
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == type.shape[axis] && in_front(shape, i) == in_front(type.shape, axis)) return static_cast<int>(i);
  }
  return kNoAxis;
}

}  // namespace htpipe::onnx_export
