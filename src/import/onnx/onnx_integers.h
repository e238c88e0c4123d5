// Unsigned 64-bit numbers, which the engine computes as signed ones: what depends on the sign is composed here.
#pragma once

#include <string_view>

#include "import/builder.h"

namespace htpipe::onnx_import {

/// A comparison: greater, greater_equal, less, less_equal. Every data type.
Result<Value*> compare(Builder& builder, std::string_view operation, Value* a, Value* b, std::string_view suffix = {});
/// maximum or minimum. Every data type.
Result<Value*> extremum(Builder& builder, std::string_view operation, Value* a, Value* b, std::string_view suffix = {});
/// Unsigned numbers as signed ones in the same order, and back. All other types stay as they are.
Result<Value*> to_ordered(Builder& builder, Value* value, std::string_view suffix);
Result<Value*> from_ordered(Builder& builder, Value* value, DType dtype, std::string_view suffix = {});
/// divide, or mod of numbers without a sign. Every data type.
Result<Value*> quotient(Builder& builder, std::string_view operation, Value* a, Value* b, std::string_view suffix = {});
/// Bits moved to the right, zeros coming in for unsigned numbers and the sign for signed ones.
Result<Value*> shift_right(Builder& builder, Value* value, Value* distance, std::string_view suffix = {});

}  // namespace htpipe::onnx_import
