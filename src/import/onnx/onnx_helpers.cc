#include "import/onnx/onnx_helpers.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace htpipe::onnx_import {

Result<Values> one(Result<Value*> value) {
  HTPIPE_TRY(Value * result, std::move(value));
  return Values{result};
}

IntList count_up(std::int64_t first, std::int64_t last) {
  IntList list;
  for (std::int64_t i = first; i < last; ++i) list.push_back(i);
  return list;
}

std::int64_t rank_of(const Value* value) { return static_cast<std::int64_t>(value->type.shape.size()); }

std::int64_t count_between(const Shape& shape, std::int64_t first, std::int64_t last) {
  std::int64_t count = 1;
  for (std::int64_t axis = first; axis < last; ++axis) count *= shape[static_cast<std::size_t>(axis)];
  return count;
}

Result<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 1; i <= shape.size(); ++i) {
    const std::int64_t left = i <= a.size() ? a[a.size() - i] : 1;
    const std::int64_t right = i <= b.size() ? b[b.size() - i] : 1;
    if (left != right && left != 1 && right != 1) {
      return fail(Code::kShapeMismatch, fmt::format("{} and {} do not broadcast", to_string(a), to_string(b)));
    }
    shape[shape.size() - i] = left == 1 ? right : left;
  }
  return shape;
}

Result<double> number_input(const Call& call, std::size_t index) {
  HTPIPE_TRY(const Tensor tensor, call.constant_input(index));
  if (tensor.count() != 1) {
    return fail(Code::kOnnxInvalid, fmt::format("input {} is {}, no single number", index, to_string(tensor.shape())));
  }
  return tensor.real(0);
}

Result<Value*> slice(Builder& builder, Value* value, std::int64_t axis, std::int64_t begin, std::int64_t end,
                     std::string_view suffix) {
  if (axis < 0 || axis >= rank_of(value)) {
    return fail(Code::kShapeMismatch, fmt::format("{} has no axis {}", to_string(value->type.shape), axis));
  }
  IntList first(value->type.shape.size(), 0);
  IntList last = value->type.shape;
  const auto at = static_cast<std::size_t>(axis);
  if (begin == 0 && end == last[at]) return value;
  first[at] = begin;
  last[at] = end;
  return builder.add("StridedSlice", {{"begin", first}, {"end", last}, {"strides", IntList(first.size(), 1)}}, {value},
                     suffix);
}

Result<Value*> part_of(Builder& builder, Value* value, std::int64_t index, std::string_view suffix) {
  const Shape& shape = value->type.shape;
  if (shape.empty() || index < 0 || index >= shape.front()) {
    return fail(Code::kShapeMismatch, fmt::format("{} has no part {}", to_string(shape), index));
  }
  Shape inner(shape.begin() + 1, shape.end());
  if (!value->is_constant()) {
    HTPIPE_TRY(Value * cut, slice(builder, value, 0, index, index + 1, fmt::format("{}_cut", suffix)));
    return builder.reshape(cut, std::move(inner), suffix);
  }
  TensorType type{value->type.dtype, std::move(inner), std::nullopt};
  auto owner = std::make_shared<Tensor>(value->constant);
  const std::byte* bytes = owner->bytes().data() + static_cast<std::size_t>(index) * type.size_bytes();
  return builder.constant(suffix, Tensor(std::move(type), std::move(owner), bytes));
}

Result<Value*> concat(Builder& builder, std::vector<Value*> values, std::int64_t axis, std::string_view suffix) {
  if (values.size() == 1) return values.front();
  return builder.add("Concat", {{"axis", axis}}, std::move(values), suffix);
}

Result<Value*> reduce(Builder& builder, std::string_view op, Value* value, IntList axes, bool keep_dims,
                      std::string_view suffix) {
  return builder.add(op, {{"axes", std::move(axes)}, {"keep_dims", keep_dims}}, {value}, suffix);
}

Result<Value*> mat_mul(Builder& builder, Value* a, Value* b, bool transpose_a, bool transpose_b,
                       std::string_view suffix) {
  return builder.add("MatMul", {{"transpose_in0", transpose_a}, {"transpose_in1", transpose_b}}, {a, b}, suffix);
}

Result<Value*> select(Builder& builder, Value* condition, Value* a, Value* b, std::string_view suffix) {
  return builder.add("ElementWiseSelect", {}, {condition, a, b}, suffix);
}

Result<Value*> linear(Builder& builder, Value* input, Value* weight, Value* bias, std::string_view suffix) {
  std::vector<Value*> operands = {input, weight};
  if (bias != nullptr) operands.push_back(bias);
  return builder.add("FullyConnected", {{"keep_dims", true}}, std::move(operands), suffix);
}

}  // namespace htpipe::onnx_import
