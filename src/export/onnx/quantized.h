// Values with an encoding as ONNX writes them: stored integers between QuantizeLinear and DequantizeLinear.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "export/onnx/writer.h"

namespace htpipe::onnx_export {

/// Whether two elements share a byte in the file: 4-bit encodings.
[[nodiscard]] bool is_nibbles(const TensorType& type);
/// ONNX's number of the stored data type.
[[nodiscard]] std::int32_t stored_type_of(const TensorType& type);

/// Whether the opset can store `value` by its encoding. Errors: unsupported-form at the value.
Status check_encoding(const Value& value, std::int64_t opset);

/// Adds the node between stored integers and real numbers (float32). `type` has an encoding that was checked.
void quantize(Writer& writer, const std::string& real, const TensorType& type, const std::string& output);
void dequantize(Writer& writer, const std::string& stored, const TensorType& type, const std::string& output);

/// The axis of the scales of `type` when its elements get another shape: the axis of that size with as many elements in
/// front of it. -1 = there is one scale; kNoAxis = the shape has no such axis.
inline constexpr int kNoAxis = -2;
[[nodiscard]] int reshaped_axis(const TensorType& type, const Shape& shape);

}  // namespace htpipe::onnx_export
