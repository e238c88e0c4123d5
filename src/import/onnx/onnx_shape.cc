// Shapes: what is known of them, and operators that change only them.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"
#include "tensor/checked_size.h"

namespace htpipe::onnx_import::map {
namespace {

/// Axes given as an attribute, from opset 13 on as an input; `rank` is the one that they count in.
Result<IntList> axes_of(Call& call, std::size_t rank) {
  IntList given;
  if (call.opset() >= 13) {
    if (call.has(1)) {
      HTPIPE_TRY(given, call.integers_input(1));
    }
  } else {
    HTPIPE_TRY(given, call.ints("axes"));
  }
  IntList axes;
  for (const std::int64_t axis : given) {
    HTPIPE_TRY(const std::int64_t normal, normal_axis(axis, rank));
    axes.push_back(normal);
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) {
    return fail(Code::kOnnxInvalid, "an axis is named twice");
  }
  return axes;
}

bool contains(const IntList& list, std::size_t value) {
  return std::find(list.begin(), list.end(), static_cast<std::int64_t>(value)) != list.end();
}

/// The target of a Reshape with its 0 and -1 resolved.
Result<Shape> resolved(const Shape& from, IntList target, bool allow_zero) {
  const auto misfit = [&] {
    return fail(Code::kShapeMismatch, fmt::format("{} does not reshape to {}", to_string(from), to_string(target)));
  };
  std::int64_t known = 1;
  std::ptrdiff_t open = -1;
  Shape shape = target;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0 && !allow_zero) {
      if (i >= from.size()) return misfit();
      shape[i] = from[i];
    }
    if (shape[i] == -1) {
      if (open >= 0) return misfit();
      open = static_cast<std::ptrdiff_t>(i);
      continue;
    }
    if (shape[i] < 0 || (shape[i] != 0 && known > std::int64_t{1} << 40)) return misfit();
    known *= shape[i];
  }
  const std::int64_t count = element_count(from);
  if (open >= 0) {
    if (known == 0 || count % known != 0) return misfit();
    shape[static_cast<std::size_t>(open)] = count / known;
  } else if (known != count) {
    return misfit();
  }
  return shape;
}

}  // namespace

Result<Values> shape(Call& call) {
  HTPIPE_TRY(const Value* input, call.input(0));
  const std::int64_t rank = rank_of(input);
  HTPIPE_TRY(std::int64_t start, call.integer("start", 0));
  HTPIPE_TRY(std::int64_t end, call.integer("end", rank));
  start = std::clamp<std::int64_t>(start < 0 ? start + rank : start, 0, rank);
  end = std::clamp<std::int64_t>(end < 0 ? end + rank : end, start, rank);
  const IntList sizes(input->type.shape.begin() + start, input->type.shape.begin() + end);
  return Values{call.integers("", Shape{end - start}, sizes)};
}

Result<Values> size(Call& call) {
  HTPIPE_TRY(const Value* input, call.input(0));
  return Values{call.integers("", Shape{}, IntList{input->type.count()})};
}

Result<Values> reshape(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const IntList target, call.integers_input(1));
  HTPIPE_TRY(const std::int64_t allow_zero, call.integer("allowzero", 0));
  HTPIPE_TRY(Shape shape, resolved(input->type.shape, target, allow_zero != 0));
  return one(call.reshape(input, std::move(shape)));
}

Result<Values> flatten(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(std::int64_t axis, call.integer("axis", 1));
  const std::int64_t rank = rank_of(input);
  if (axis < -rank || axis > rank) return fail(Code::kOnnxInvalid, fmt::format("axis {} of rank {}", axis, rank));
  if (axis < 0) axis += rank;
  const Shape& shape = input->type.shape;
  return one(call.reshape(input, {count_between(shape, 0, axis), count_between(shape, axis, rank)}));
}

Result<Values> squeeze(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  const Shape& from = input->type.shape;
  HTPIPE_TRY(const IntList axes, axes_of(call, from.size()));
  Shape shape;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    const bool named = contains(axes, axis);
    if (named && from[axis] != 1) {
      return fail(Code::kShapeMismatch, fmt::format("axis {} of {} is not 1", axis, to_string(from)));
    }
    if (!named && (!axes.empty() || from[axis] != 1)) shape.push_back(from[axis]);
  }
  return one(call.reshape(input, std::move(shape)));
}

Result<Values> unsqueeze(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  std::size_t count = 0;
  if (call.opset() >= 13) {
    HTPIPE_TRY(const IntList given, call.integers_input(1));
    count = given.size();
  } else {
    HTPIPE_TRY(const IntList given, call.ints("axes"));
    count = given.size();
  }
  const std::size_t rank = input->type.shape.size() + count;
  HTPIPE_TRY(const IntList axes, axes_of(call, rank));
  Shape shape;
  auto next = input->type.shape.begin();
  for (std::size_t axis = 0; axis < rank; ++axis) shape.push_back(contains(axes, axis) ? 1 : *next++);
  return one(call.reshape(input, std::move(shape)));
}

Result<Values> transpose(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  const std::size_t rank = input->type.shape.size();
  IntList reversed = count_up(0, rank_of(input));
  std::reverse(reversed.begin(), reversed.end());
  HTPIPE_TRY(IntList perm, call.ints("perm", reversed));
  IntList seen(rank, 0);
  for (std::int64_t& axis : perm) {
    HTPIPE_TRY(axis, normal_axis(axis, rank));
    ++seen[static_cast<std::size_t>(axis)];
  }
  if (perm.size() != rank || std::find(seen.begin(), seen.end(), 0) != seen.end()) {
    return fail(Code::kOnnxInvalid, fmt::format("perm {} of rank {}", to_string(perm), rank));
  }
  return one(call.transpose(input, perm));
}

Result<Values> expand(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const IntList target, call.integers_input(1));
  if (!checked_size_bytes(target, input->type.dtype)) {
    return fail(Code::kShapeMismatch, fmt::format("Expand to {}", to_string(target)));
  }
  HTPIPE_TRY(const Shape shape, broadcast_shape(input->type.shape, target));
  return one(call.expand(input, shape));
}

Result<Values> tile(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const IntList repeats, call.integers_input(1));
  if (repeats.size() != input->type.shape.size()) {
    return fail(Code::kOnnxInvalid, fmt::format("repeats {} of {}", to_string(repeats), to_string(input->type.shape)));
  }
  if (std::all_of(repeats.begin(), repeats.end(), [](std::int64_t n) { return n == 1; })) return Values{input};
  return one(call.add("Tile", {{"multiples", repeats}}, {input}));
}

Result<Values> concat(Call& call) {
  HTPIPE_TRY(const Value* first, call.input(0));
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", std::nullopt, first->type.shape.size()));
  Values values;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    HTPIPE_TRY(Value * value, call.input(i));
    values.push_back(value);
  }
  return one(onnx_import::concat(call, values, axis));
}

Result<Values> split(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", 0, input->type.shape.size()));
  const std::int64_t size = input->type.shape[static_cast<std::size_t>(axis)];
  IntList parts;
  if (call.opset() >= 13) {
    if (call.has(1)) {
      HTPIPE_TRY(parts, call.integers_input(1));
    }
  } else {
    HTPIPE_TRY(parts, call.ints("split"));
  }
  if (parts.empty()) {
    const auto outputs = static_cast<std::int64_t>(call.output_count());
    HTPIPE_TRY(const std::int64_t count, call.integer("num_outputs", outputs));
    if (count < 1 || count != outputs) {
      return fail(Code::kOnnxInvalid, fmt::format("{} parts for {} outputs", count, outputs));
    }
    const std::int64_t part = (size + count - 1) / count;  // the last one may be smaller
    for (std::int64_t i = 0; i < count; ++i) parts.push_back(std::clamp<std::int64_t>(size - i * part, 0, part));
  }
  if (parts.size() != call.output_count()) {
    return fail(Code::kOnnxInvalid, fmt::format("{} parts for {} outputs", parts.size(), call.output_count()));
  }
  IntList cuts;
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] < 0 || parts[i] > size)
      return fail(Code::kOnnxInvalid, fmt::format("a part of {} elements", parts[i]));
    if (i > 0) cuts.push_back(sum);
    sum += parts[i];
  }
  if (sum != size) return fail(Code::kShapeMismatch, fmt::format("parts {} of {}", to_string(parts), size));
  if (parts.size() == 1) return Values{input};
  return call.add_all("Split", {{"axis", axis}, {"split_index", cuts}}, {input});
}

}  // namespace htpipe::onnx_import::map
