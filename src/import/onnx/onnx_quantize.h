// Quantised values: stored integers with an encoding, or plain integers and the numbers that give them a meaning.
#pragma once

#include <optional>
#include <string_view>

#include "import/onnx/call.h"

namespace htpipe::onnx_import {

/// Scale and zero point of a QuantizeLinear or DequantizeLinear.
struct Grid {
  Value* scale = nullptr;
  Value* zero_point = nullptr;  ///< null = 0
  std::int64_t axis = 1;        ///< used when the scale is no single number
  std::int64_t block = 0;       ///< elements along the axis that share a scale; 0 = one scale per index
};

/// `grid` as an encoding of tensors of `type`; nothing when it is no constant or not a form that encodings have.
std::optional<Encoding> encoding_of(const Grid& grid, const TensorType& type, int bits);
/// Real numbers for integers of any kind. The type of the result is `to`.
Result<Value*> dequantized(Builder& builder, Value* value, const Grid& grid, int bits, DType to,
                           std::string_view suffix = {});
/// Integers of type `to` for real numbers.
Result<Value*> quantized(Builder& builder, Value* value, const Grid& grid, DType to, int bits,
                         std::string_view suffix = {});
/// The stored integers of an encoded value as plain ones; any other value itself.
Result<Value*> plain(Builder& builder, Value* value, std::string_view suffix);

}  // namespace htpipe::onnx_import
