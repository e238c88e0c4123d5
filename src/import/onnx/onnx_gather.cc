// Elements that indices name. Constant indices become 32-bit ones that count from the front, for each use anew: the same
// constant may stand for other elements elsewhere.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_integers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// `sizes` holds the size of the axis that element i counts in, at i modulo its length.
Result<Value*> positions(Call& call, Value* indices, const IntList& sizes) {
  if (!is_integer(indices->type.dtype)) {
    return fail(Code::kOnnxInvalid, fmt::format("indices are {}", name_of(indices->type.dtype)));
  }
  if (!indices->is_constant()) {
    const bool known = indices->type.dtype == DType::kI32 || indices->type.dtype == DType::kI64;
    return known ? Result<Value*>(indices) : call.cast(indices, DType::kI64, "indices");
  }
  Tensor normal(TensorType{DType::kI32, indices->type.shape, std::nullopt});
  const auto data = normal.mutable_data<std::int32_t>();
  const IntList given = to_integers(indices->constant);
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::int64_t size = sizes[i % sizes.size()];
    const std::int64_t position = given[i] < 0 ? given[i] + size : given[i];
    if (position < 0 || position >= size || position > highest(DType::kI32)) {
      return fail(Code::kUnsupportedForm, fmt::format("index {} of {}", given[i], size));
    }
    data[i] = static_cast<std::int32_t>(position);
  }
  return call.constant("indices", std::move(normal));
}

std::int64_t size_along(const Value* value, std::int64_t axis) {
  return value->type.shape[static_cast<std::size_t>(axis)];
}

/// Sizes of the axes that rows of `depth` positions count in, from axis `first` on.
Result<IntList> sizes_for(const Value* data, std::int64_t first, const Value* indices) {
  if (indices->type.shape.empty()) return fail(Code::kOnnxInvalid, "indices have rank 0");
  const std::int64_t depth = indices->type.shape.back();
  if (depth < 1 || first + depth > rank_of(data)) {
    return fail(Code::kOnnxInvalid, fmt::format("{} indices a row for {}", depth, to_string(data->type.shape)));
  }
  const auto begin = data->type.shape.begin() + first;
  return IntList(begin, begin + depth);
}

Result<std::string> reduction_of(Call& call) {
  HTPIPE_TRY(std::string reduction, call.text("reduction", "none"));
  for (const char* known : {"none", "add", "mul", "max", "min"}) {
    if (reduction == known) return reduction;
  }
  return fail(Code::kUnsupportedForm, "reduction " + reduction);
}

Result<Value*> gather_along(Call& call, Value* input, Value* indices, std::int64_t axis, std::string_view suffix = {}) {
  HTPIPE_TRY(Value * normal, positions(call, indices, {size_along(input, axis)}));
  return call.add("Gather", {{"axis", axis}}, {input, normal}, suffix);
}

}  // namespace

Result<Values> gather(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * indices, call.input(1));
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", 0, input->type.shape.size()));
  return one(gather_along(call, input, indices, axis));
}

Result<Values> gather_elements(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * indices, call.input(1));
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", 0, input->type.shape.size()));
  HTPIPE_TRY(indices, positions(call, indices, {size_along(input, axis)}));
  return one(call.add("GatherElements", {{"axis", axis}}, {input, indices}));
}

Result<Values> gather_nd(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * indices, call.input(1));
  HTPIPE_TRY(const std::int64_t batch, call.integer("batch_dims", 0));
  if (batch < 0 || batch >= rank_of(input)) return fail(Code::kOnnxInvalid, fmt::format("batch_dims {}", batch));
  HTPIPE_TRY(const IntList sizes, sizes_for(input, batch, indices));
  HTPIPE_TRY(indices, positions(call, indices, sizes));
  return one(call.add("GatherNd", {{"batch_dims", batch}}, {input, indices}));
}

Result<Values> scatter_elements(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * indices, call.input(1));
  HTPIPE_TRY(Value * updates, call.input(2));
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", 0, input->type.shape.size()));
  HTPIPE_TRY(const std::string reduction, reduction_of(call));
  HTPIPE_TRY(indices, positions(call, indices, {size_along(input, axis)}));
  return one(call.add("ScatterElements", {{"axis", axis}, {"reduction", reduction}}, {input, indices, updates}));
}

Result<Values> scatter_nd(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * indices, call.input(1));
  HTPIPE_TRY(Value * updates, call.input(2));
  HTPIPE_TRY(const std::string reduction, reduction_of(call));
  HTPIPE_TRY(const IntList sizes, sizes_for(input, 0, indices));
  HTPIPE_TRY(indices, positions(call, indices, sizes));
  return one(call.add("ScatterNd", {{"reduction", reduction}}, {input, indices, updates}));
}

Result<Values> one_hot(Call& call) {
  HTPIPE_TRY(Value * indices, call.input(0));
  HTPIPE_TRY(Value * values, call.input(2));
  HTPIPE_TRY(const double depth_given, number_input(call, 1));
  const auto depth = static_cast<std::int64_t>(depth_given);
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", -1, indices->type.shape.size() + 1));
  if (values->type.count() != 2) return fail(Code::kOnnxInvalid, "OneHot needs two values");
  HTPIPE_TRY(indices, call.cast(indices, DType::kI64, "whole"));
  Attributes attributes = {{"depth", depth}, {"axis", axis}};
  const DType dtype = values->type.dtype;
  if (values->is_constant()) {
    const auto off = static_cast<float>(values->constant.real(0));
    const auto on = static_cast<float>(values->constant.real(1));
    const bool exact =
        static_cast<double>(off) == values->constant.real(0) && static_cast<double>(on) == values->constant.real(1);
    if (exact) {
      attributes.set("on_value", on);
      attributes.set("off_value", off);
      attributes.set("to", std::string(name_of(dtype)));
      return one(call.add("OneHot", attributes, {indices}));
    }
  }
  attributes.set("to", std::string("bool"));
  HTPIPE_TRY(Value * mask, call.add("OneHot", attributes, {indices}, "mask"));
  HTPIPE_TRY(Value * off, part_of(call, values, 0, "off"));
  HTPIPE_TRY(Value * on, part_of(call, values, 1, "on"));
  return one(select(call, mask, on, off));
}

Result<Values> reverse_sequence(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * lengths, call.input(1));
  HTPIPE_TRY(const std::int64_t batch, call.axis("batch_axis", 1, input->type.shape.size()));
  HTPIPE_TRY(const std::int64_t time, call.axis("time_axis", 0, input->type.shape.size()));
  return one(call.add("ReverseSequence", {{"batch_axis", batch}, {"time_axis", time}}, {input, lengths}));
}

Result<Values> compress(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const IntList condition, call.integers_input(1));
  std::int64_t axis = 0;
  if (call.has_attribute("axis")) {
    HTPIPE_TRY(axis, call.axis("axis", std::nullopt, input->type.shape.size()));
  } else {
    HTPIPE_TRY(input, call.reshape(input, {input->type.count()}, "flat"));
  }
  IntList chosen;
  for (std::size_t i = 0; i < condition.size(); ++i) {
    if (condition[i] != 0) chosen.push_back(static_cast<std::int64_t>(i));
  }
  const Shape shape = {static_cast<std::int64_t>(chosen.size())};
  return one(gather_along(call, input, call.integers("chosen", shape, chosen), axis));
}

Result<Values> non_zero(Call& call) {
  HTPIPE_TRY(const Value* input, call.input(0));
  if (!input->is_constant()) {
    return fail(Code::kDataDependent, "how many elements are not zero is known only when the model runs");
  }
  const Shape& shape = input->type.shape;
  std::vector<IntList> found(std::max<std::size_t>(shape.size(), 1));
  for (std::int64_t i = 0; i < input->type.count(); ++i) {
    if (input->constant.real(i) == 0.0) continue;
    std::int64_t rest = i;
    if (shape.empty()) found[0].push_back(0);
    for (std::size_t axis = shape.size(); axis-- > 0;) {
      found[axis].push_back(rest % shape[axis]);
      rest /= shape[axis];
    }
  }
  IntList all;
  for (const IntList& row : found) all.insert(all.end(), row.begin(), row.end());
  const auto rows = static_cast<std::int64_t>(found.size());
  return Values{call.integers("", Shape{rows, static_cast<std::int64_t>(all.size()) / rows}, all)};
}

Result<Values> tensor_scatter(Call& call) {
  HTPIPE_TRY(Value * past, call.input(0));
  HTPIPE_TRY(Value * update, call.input(1));
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", -2, past->type.shape.size()));
  HTPIPE_TRY(const std::string mode, call.text("mode", "linear"));
  if (mode != "linear" && mode != "circular") return fail(Code::kOnnxInvalid, "TensorScatter with mode " + mode);
  if (axis == 0 || update->type.shape.size() != past->type.shape.size()) {
    return fail(Code::kOnnxInvalid, "TensorScatter: the axis is the batch, or ranks differ");
  }
  const std::int64_t steps = size_along(update, axis);
  const std::int64_t batch = size_along(past, 0);
  // Where each step goes: [batch, 1 …, steps, 1 …], broadcast to the update's shape.
  Shape along(past->type.shape.size(), 1);
  along[static_cast<std::size_t>(axis)] = steps;
  Value* place = call.integers("steps", along, count_up(0, steps));
  if (call.has(2)) {
    HTPIPE_TRY(Value * start, call.input(2));
    HTPIPE_TRY(start, call.cast(start, DType::kI64, "start_i64"));
    Shape first(past->type.shape.size(), 1);
    first[0] = batch;
    HTPIPE_TRY(start, call.reshape(start, first, "start"));
    HTPIPE_TRY(place, call.binary("add", start, place, "place"));
  }
  if (mode == "circular") {
    HTPIPE_TRY(place, call.binary("mod", place, static_cast<double>(size_along(past, axis)), "circular"));
  }
  HTPIPE_TRY(place, call.expand(place, update->type.shape, "places"));
  HTPIPE_TRY(place, positions(call, place, {size_along(past, axis)}));
  return one(call.add("ScatterElements", {{"axis", axis}}, {past, place, update}));
}

Result<Values> array_feature_extractor(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * indices, call.input(1));
  if (input->type.shape.empty()) return fail(Code::kOnnxInvalid, "ArrayFeatureExtractor of a single number");
  HTPIPE_TRY(indices, call.reshape(indices, {indices->type.count()}, "flat"));
  const std::int64_t axis = rank_of(input) - 1;
  const Shape row = {1, indices->type.count()};
  HTPIPE_TRY(Value * result, gather_along(call, input, indices, axis, axis == 0 ? "row" : ""));
  return axis == 0 ? one(call.reshape(result, row)) : Result<Values>(Values{result});
}

}  // namespace htpipe::onnx_import::map
