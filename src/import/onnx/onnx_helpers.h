// Small helpers of mappers. Values must have known types; axes count from the front.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "import/onnx/call.h"

namespace htpipe::onnx_import {

using IntList = std::vector<std::int64_t>;

/// What a mapper with one output gives back.
Result<Values> one(Result<Value*> value);

/// first, first + 1 … below last.
[[nodiscard]] IntList count_up(std::int64_t first, std::int64_t last);
[[nodiscard]] std::int64_t rank_of(const Value* value);
/// Number of elements along the axes [first, last).
[[nodiscard]] std::int64_t count_between(const Shape& shape, std::int64_t first, std::int64_t last);
/// numpy's broadcasting. Errors: shape-mismatch.
Result<Shape> broadcast_shape(const Shape& a, const Shape& b);
/// The one element of a constant input as a number. Errors: needs-constant, onnx-invalid.
Result<double> number_input(const Call& call, std::size_t index);

/// Elements [begin, end) along one axis; `value` itself when that is all of them.
Result<Value*> slice(Builder& builder, Value* value, std::int64_t axis, std::int64_t begin, std::int64_t end,
                     std::string_view suffix);
/// Element `index` along the first axis, without that axis; a constant shares its bytes.
Result<Value*> part_of(Builder& builder, Value* value, std::int64_t index, std::string_view suffix);
Result<Value*> concat(Builder& builder, std::vector<Value*> values, std::int64_t axis, std::string_view suffix = {});
Result<Value*> reduce(Builder& builder, std::string_view op, Value* value, IntList axes, bool keep_dims,
                      std::string_view suffix = {});
Result<Value*> mat_mul(Builder& builder, Value* a, Value* b, bool transpose_a, bool transpose_b,
                       std::string_view suffix = {});
/// `condition` ? a : b, with broadcasting.
Result<Value*> select(Builder& builder, Value* condition, Value* a, Value* b, std::string_view suffix = {});
/// [..., in] times constant or computed weights [out, in], plus bias [out] or null: keeps the leading axes.
Result<Value*> linear(Builder& builder, Value* input, Value* weight, Value* bias, std::string_view suffix = {});

}  // namespace htpipe::onnx_import
