// Operators that take parts of a tensor, put parts into it, or pad it.
#include <fmt/core.h>

#include <algorithm>

#include "import/pt2/mappers.h"

namespace htpipe::pt2 {
namespace {

constexpr std::size_t kMostParts = 1 << 16;

const Shape& shape_of(const Value* value) { return value->type.shape; }

/// Python's start:end of an axis.
Result<std::pair<std::int64_t, std::int64_t>> range_of(const Call& call, std::int64_t size) {
  HTPIPE_TRY(std::int64_t begin, call.integer("start", 0));
  HTPIPE_TRY(std::int64_t end, call.integer("end", size));
  begin = std::clamp(begin < 0 ? begin + size : begin, std::int64_t{0}, size);
  end = std::clamp(end < 0 ? end + size : end, begin, size);
  return std::pair{begin, end};
}

One strided(Call& call, Value* input, std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step,
            std::string_view suffix) {
  if (step == 1) return call.slice(input, axis, begin, end, suffix);
  const auto at = static_cast<std::size_t>(axis);
  IntList first(shape_of(input).size(), 0);
  IntList last = shape_of(input);
  IntList strides(first.size(), 1);
  first[at] = begin;
  last[at] = end;
  strides[at] = step;
  return call.add("StridedSlice", {{"begin", first}, {"end", last}, {"strides", strides}}, {input}, suffix);
}

/// Cuts along an axis into parts of these sizes.
Many cut(Call& call, Value* input, std::int64_t axis, const IntList& sizes) {
  if (sizes.size() > kMostParts) return fail(Code::kUnsupportedForm, "a split into very many parts");
  std::int64_t total = 0;
  bool empty = false;
  IntList cuts;
  for (const std::int64_t size : sizes) {
    total += size;
    cuts.push_back(total);
    empty = empty || size == 0;
  }
  if (shape_of(input).empty() || sizes.empty() || total != shape_of(input)[static_cast<std::size_t>(axis)]) {
    return fail(Code::kUnsupportedForm,
                fmt::format("split of {} into {}", to_string(shape_of(input)), to_string(sizes)));
  }
  cuts.pop_back();  // where each part but the first begins
  if (sizes.size() == 1) return Values{input};
  if (!empty) return call.add_many("Split", {{"axis", axis}, {"split_index", cuts}}, {input});
  Values parts;
  std::int64_t at = 0;
  for (const std::int64_t size : sizes) {
    HTPIPE_TRY(Value * part, call.slice(input, axis, at, at + size, fmt::format("part{}", parts.size())));
    parts.push_back(part);
    at += size;
  }
  return parts;
}

/// `self` with its elements [begin, end) along the axis replaced.
One replace(Call& call, Value* self, Value* block, std::int64_t axis, std::int64_t begin, std::int64_t end) {
  Values parts;
  const std::int64_t size = shape_of(self)[static_cast<std::size_t>(axis)];
  if (begin > 0) {
    HTPIPE_TRY(Value * before, call.slice(self, axis, 0, begin, "before"));
    parts.push_back(before);
  }
  parts.push_back(block);
  if (end < size) {
    HTPIPE_TRY(Value * behind, call.slice(self, axis, end, size, "behind"));
    parts.push_back(behind);
  }
  return call.concat(std::move(parts), axis);
}

}  // namespace

One slice(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape_of(input).size(), 0));
  if (shape_of(input).empty()) return fail(Code::kUnsupportedForm, "slice of a scalar");
  HTPIPE_TRY(const auto range, range_of(call, shape_of(input)[static_cast<std::size_t>(axis)]));
  HTPIPE_TRY(const std::int64_t step, call.integer("step", 1));
  if (step < 1) return fail(Code::kUnsupportedForm, "slice with a step below 1");
  return strided(call, input, axis, range.first, range.second, step, "");
}

One narrow(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape_of(input).size()));
  HTPIPE_TRY(std::int64_t start, call.integer("start"));
  HTPIPE_TRY(const std::int64_t length, call.integer("length"));
  if (shape_of(input).empty()) return fail(Code::kUnsupportedForm, "narrow of a scalar");
  const std::int64_t size = shape_of(input)[static_cast<std::size_t>(axis)];
  if (start < 0) start += size;
  if (start < 0 || length < 0 || start > size - length) return fail(Code::kUnsupportedForm, "narrow out of range");
  return call.slice(input, axis, start, start + length);
}

One select_index(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape_of(input).size()));
  HTPIPE_TRY(std::int64_t index, call.integer("index"));
  if (shape_of(input).empty()) return fail(Code::kUnsupportedForm, "select of a scalar");
  Shape shape = shape_of(input);
  const std::int64_t size = shape[static_cast<std::size_t>(axis)];
  if (index < 0) index += size;
  if (index < 0 || index >= size) return fail(Code::kUnsupportedForm, "select out of range");
  HTPIPE_TRY(Value * row, call.slice(input, axis, index, index + 1, "row"));
  shape.erase(shape.begin() + axis);
  return call.reshape(row, shape);
}

/// split.Tensor, split_with_sizes, chunk, tensor_split: sizes of the parts, from the declared results where they follow.
Many split(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape_of(input).size(), 0));
  if (shape_of(input).empty()) return fail(Code::kUnsupportedForm, "split of a scalar");
  const std::int64_t size = shape_of(input)[static_cast<std::size_t>(axis)];
  const std::string_view name = call.argument();
  IntList sizes;
  if (name == "sizes") {
    HTPIPE_TRY(sizes, call.integers(call.node().input("split_sizes") != nullptr ? "split_sizes" : "split_size", 0));
  } else if (name == "indices") {
    HTPIPE_TRY(const IntList indices, call.integers("indices", 0));
    std::int64_t last = 0;
    for (std::int64_t at : indices) {
      at = std::clamp(at < 0 ? at + size : at, std::int64_t{0}, size);
      sizes.push_back(std::max<std::int64_t>(at - last, 0));
      last = at;
    }
    sizes.push_back(size - last);
  } else if (name == "sections") {
    HTPIPE_TRY(const std::int64_t sections, call.integer("sections"));
    if (sections < 1 || sections > static_cast<std::int64_t>(kMostParts)) {
      return fail(Code::kUnsupportedForm, "tensor_split into no parts or very many");
    }
    for (std::int64_t i = 0; i < sections; ++i) sizes.push_back(size / sections + (i < size % sections ? 1 : 0));
  } else {
    HTPIPE_TRY(std::int64_t part, call.integer(name == "chunk" ? "chunks" : "split_size"));
    if (part < 1) return fail(Code::kUnsupportedForm, "split into parts of no size");
    if (name == "chunk") part = std::max<std::int64_t>((size + part - 1) / part, 1);
    if (size / part > static_cast<std::int64_t>(kMostParts)) {
      return fail(Code::kUnsupportedForm, "a split into very many parts");
    }
    for (std::int64_t at = 0; at < size; at += part) sizes.push_back(std::min(part, size - at));
    if (sizes.empty()) sizes.push_back(0);
  }
  return cut(call, input, axis, sizes);
}

Many unbind(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape_of(input).size(), 0));
  if (shape_of(input).empty()) return fail(Code::kUnsupportedForm, "unbind of a scalar");
  Shape shape = shape_of(input);
  const std::int64_t size = shape[static_cast<std::size_t>(axis)];
  shape.erase(shape.begin() + axis);
  if (size > static_cast<std::int64_t>(kMostParts)) return fail(Code::kUnsupportedForm, "unbind of a very long axis");
  HTPIPE_TRY(Values parts, cut(call, input, axis, IntList(static_cast<std::size_t>(size), 1)));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    HTPIPE_TRY(parts[i], call.reshape(parts[i], shape, fmt::format("row{}", i)));
  }
  return parts;
}

/// A sub-tensor of contiguous memory, or any one whose elements are listed.
One as_strided(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const IntList size, call.integers("size", 0));
  HTPIPE_TRY(const IntList stride, call.integers("stride", 0));
  HTPIPE_TRY(const std::int64_t offset, call.integer("storage_offset", 0));
  constexpr std::int64_t kLongestStride = std::int64_t{1} << 38;
  // Strides count through memory, where the input must lie row by row.
  const TensorMeta* meta = call.declared_argument("self");
  if (meta == nullptr || !is_contiguous(*meta)) return fail(Code::kUnsupportedForm, "as_strided of a strided tensor");
  std::int64_t count = 1;
  bool plain = size.size() == stride.size() && offset >= 0 && offset <= kMostElements;
  for (std::size_t axis = 0; plain && axis < size.size(); ++axis) {
    plain = size[axis] >= 0 && stride[axis] >= 0 && stride[axis] <= kLongestStride;
    if (plain) HTPIPE_CHECK_OK(check_elements(count, size[axis]));
    count *= size[axis];
  }
  if (!plain) return fail(Code::kUnsupportedForm, "as_strided of this form");
  IntList indices;
  IntList index(size.size(), 0);
  bool in_order = offset == 0;
  for (std::int64_t i = 0; i < element_count(size); ++i) {
    std::int64_t at = offset;
    for (std::size_t axis = 0; axis < index.size(); ++axis) at += index[axis] * stride[axis];
    if (at < 0 || at >= input->type.count())
      return fail(Code::kUnsupportedForm, "as_strided reaches out of its tensor");
    in_order = in_order && at == i;
    indices.push_back(at);
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < size[axis]) break;
      index[axis] = 0;
    }
  }
  if (in_order && element_count(size) == input->type.count()) return call.reshape(input, size);
  HTPIPE_TRY(Value * flat, call.reshape(input, {input->type.count()}, "flat"));
  HTPIPE_TRY(Value * list, call.integers_constant("elements", size, indices, DType::kI32));
  return call.add("Gather", {{"axis", std::int64_t{0}}}, {flat, list});
}

/// slice_scatter and select_scatter: the tensor with a part replaced.
One scatter_part(Call& call) {
  HTPIPE_TRY(Value * self, call.tensor("self"));
  HTPIPE_TRY(Value * source, call.tensor("src"));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape_of(self).size(), 0));
  if (shape_of(self).empty()) return fail(Code::kUnsupportedForm, "a part of a scalar");
  const std::int64_t size = shape_of(self)[static_cast<std::size_t>(axis)];
  HTPIPE_TRY(source, call.cast(source, self->type.dtype, "source"));
  Shape block = shape_of(self);
  if (call.argument() == "select") {
    HTPIPE_TRY(std::int64_t index, call.integer("index"));
    if (index < 0) index += size;
    if (index < 0 || index >= size) return fail(Code::kUnsupportedForm, "select_scatter out of range");
    block[static_cast<std::size_t>(axis)] = 1;
    HTPIPE_TRY(source, call.reshape(source, block, "block"));
    return replace(call, self, source, axis, index, index + 1);
  }
  HTPIPE_TRY(const auto range, range_of(call, size));
  HTPIPE_TRY(const std::int64_t step, call.integer("step", 1));
  if (step < 1 || size > kMostElements) return fail(Code::kUnsupportedForm, "slice_scatter of this form");
  const std::int64_t count = (range.second - range.first) / step + ((range.second - range.first) % step != 0 ? 1 : 0);
  block[static_cast<std::size_t>(axis)] = count;
  HTPIPE_TRY(source, call.broadcast(source, block, "block"));
  if (count == 0) return self;
  if (step == 1) return replace(call, self, source, axis, range.first, range.second);
  // The rows in their new order: those of the source where they are written, else those of the tensor.
  IntList rows;
  for (std::int64_t i = 0; i < size; ++i) {
    const bool written = i >= range.first && i < range.second && (i - range.first) % step == 0;
    rows.push_back(written ? size + (i - range.first) / step : i);
  }
  HTPIPE_TRY(Value * both, call.concat({self, source}, axis, "both"));
  HTPIPE_TRY(Value * order, call.integers_constant("rows", {size}, rows, DType::kI32));
  return call.add("Gather", {{"axis", axis}}, {both, order});
}

/// constant_pad_nd and pad: amounts from the last axis on; negative ones cut.
One pad(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const IntList amounts, call.integers(call.node().input("pad") != nullptr ? "pad" : "padding", 0));
  HTPIPE_TRY(const std::string mode, call.text("mode", call.argument().empty() ? "constant" : call.argument()));
  HTPIPE_TRY(const double value, call.real("value", 0.0));
  const std::size_t rank = shape_of(input).size();
  if (amounts.size() % 2 != 0 || amounts.size() / 2 > rank) return fail(Code::kUnsupportedForm, "pad of more axes");
  IntList pad(2 * rank, 0);
  bool any = false;
  const bool negative = std::any_of(amounts.begin(), amounts.end(), [](std::int64_t a) { return a < 0; });
  for (std::size_t i = 0; i < amounts.size() / 2; ++i) {
    const std::size_t axis = rank - 1 - i;
    const std::int64_t before = amounts[2 * i];
    const std::int64_t behind = amounts[2 * i + 1];
    if (negative && mode == "constant") {
      const std::int64_t size = shape_of(input)[axis];
      const std::int64_t first = std::max<std::int64_t>(-before, 0);
      const std::int64_t last = size - std::max<std::int64_t>(-behind, 0);
      if (first > last) return fail(Code::kUnsupportedForm, "pad that cuts more than there is");
      HTPIPE_TRY(input, call.slice(input, static_cast<std::int64_t>(axis), first, last, fmt::format("cut{}", axis)));
    }
    pad[2 * axis] = std::max<std::int64_t>(before, 0);
    pad[2 * axis + 1] = std::max<std::int64_t>(behind, 0);
    any = any || before > 0 || behind > 0;
  }
  if (negative && mode != "constant") return fail(Code::kUnsupportedForm, "negative padding of mode " + mode);
  if (!any) return input;
  std::string scheme = "constant";
  if (mode == "reflect") scheme = "mirror_reflect";
  if (mode == "replicate") scheme = "edge";
  if (mode == "circular") scheme = "wrap";
  if (scheme == "constant" && mode != "constant") return fail(Code::kUnsupportedForm, "padding of mode " + mode);
  return call.add("Pad", {{"scheme", scheme}, {"pad_amount", pad}, {"pad_constant_value", static_cast<float>(value)}},
                  {input});
}

/// tril and triu: a constant mask selects.
One triangle(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const std::int64_t diagonal, call.integer("diagonal", 0));
  const Shape& shape = shape_of(input);
  if (shape.size() < 2) return fail(Code::kUnsupportedForm, "a triangle of " + to_string(shape));
  const Shape matrix(shape.end() - 2, shape.end());
  HTPIPE_CHECK_OK(check_elements(matrix[0], matrix[1]));
  IntList mask;
  for (std::int64_t row = 0; row < matrix[0]; ++row) {
    for (std::int64_t column = 0; column < matrix[1]; ++column) {
      mask.push_back((call.argument() == "lower" ? column - row <= diagonal : column - row >= diagonal) ? 1 : 0);
    }
  }
  HTPIPE_TRY(Value * inside, call.integers_constant("mask", matrix, mask, DType::kBool));
  if (input->type.dtype == DType::kBool) return call.binary("and", input, inside);
  HTPIPE_TRY(Value * zero, call.scalar(0.0, input->type.dtype, "zero"));
  return call.select(inside, input, zero);
}

/// The diagonal of two axes as the last axis: elements by their place in the flattened pair.
One diagonal(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  const std::size_t rank = shape_of(input).size();
  HTPIPE_TRY(const std::int64_t offset, call.integer("offset", 0));
  HTPIPE_TRY(const std::int64_t a, call.axis("dim1", rank, 0));
  HTPIPE_TRY(const std::int64_t b, call.axis("dim2", rank, 1));
  if (rank < 2 || a == b) return fail(Code::kUnsupportedForm, "a diagonal of " + to_string(shape_of(input)));
  IntList order;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(rank); ++i) {
    if (i != a && i != b) order.push_back(i);
  }
  Shape shape(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) shape[i] = shape_of(input)[static_cast<std::size_t>(order[i])];
  order.push_back(a);
  order.push_back(b);
  const std::int64_t rows = shape_of(input)[static_cast<std::size_t>(a)];
  const std::int64_t columns = shape_of(input)[static_cast<std::size_t>(b)];
  HTPIPE_CHECK_OK(check_elements(rows));
  if (offset < -columns - rows || offset > columns + rows)
    return fail(Code::kUnsupportedForm, "a diagonal out of range");
  IntList places;
  for (std::int64_t row = 0; row < rows; ++row) {
    if (row + offset >= 0 && row + offset < columns) places.push_back(row * columns + row + offset);
  }
  HTPIPE_TRY(Value * moved, call.transpose(input, order, "moved"));
  shape.push_back(rows * columns);
  HTPIPE_TRY(Value * flat, call.reshape(moved, shape, "flat"));
  HTPIPE_TRY(Value * list,
             call.integers_constant("places", {static_cast<std::int64_t>(places.size())}, places, DType::kI32));
  return call.add("Gather", {{"axis", static_cast<std::int64_t>(shape.size() - 1)}}, {flat, list});
}

/// Windows of an axis, as a new last axis.
One unfold(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  const std::size_t rank = shape_of(input).size();
  HTPIPE_TRY(const std::int64_t axis, call.axis("dimension", rank));
  HTPIPE_TRY(const std::int64_t size, call.integer("size"));
  HTPIPE_TRY(const std::int64_t step, call.integer("step"));
  if (rank == 0 || step < 1 || size < 0 || size > shape_of(input)[static_cast<std::size_t>(axis)]) {
    return fail(Code::kUnsupportedForm, "unfold of " + to_string(shape_of(input)));
  }
  const std::int64_t windows = (shape_of(input)[static_cast<std::size_t>(axis)] - size) / step + 1;
  HTPIPE_CHECK_OK(check_elements(windows, size));
  IntList places;
  for (std::int64_t i = 0; i < windows; ++i) {
    for (std::int64_t k = 0; k < size; ++k) places.push_back(i * step + k);
  }
  HTPIPE_TRY(Value * list, call.integers_constant("places", {windows, size}, places, DType::kI32));
  HTPIPE_TRY(Value * taken, call.add("Gather", {{"axis", axis}}, {input, list}, "windows"));
  IntList order;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(rank) + 1; ++i) {
    if (i != axis + 1) order.push_back(i);
  }
  order.push_back(axis + 1);
  return call.transpose(taken, order);
}

/// Differences of neighbours.
One diff(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const std::int64_t n, call.integer("n", 1));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape_of(input).size(), -1));
  if (n < 0 || n > 16 || shape_of(input).empty()) return fail(Code::kUnsupportedForm, "diff of this order");
  Values parts;
  for (const char* name : {"prepend", "append"}) {
    HTPIPE_TRY(Value * more, call.optional_tensor(name));
    if (parts.empty() && std::string_view(name) == "append") parts.push_back(input);
    if (more != nullptr) {
      HTPIPE_TRY(more, call.cast(more, input->type.dtype, name));
      parts.push_back(more);
      if (std::string_view(name) == "prepend") parts.push_back(input);
    }
  }
  HTPIPE_TRY(input, call.concat(std::move(parts), axis, "joined"));
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t size = shape_of(input)[static_cast<std::size_t>(axis)];
    if (size == 0) break;
    HTPIPE_TRY(Value * high, call.slice(input, axis, 1, size, fmt::format("high{}", i)));
    HTPIPE_TRY(Value * low, call.slice(input, axis, 0, size - 1, fmt::format("low{}", i)));
    const std::string_view operation = input->type.dtype == DType::kBool ? "xor" : "subtract";
    HTPIPE_TRY(input, call.binary(operation, high, low, i + 1 == n ? "" : fmt::format("order{}", i)));
  }
  return input;
}

}  // namespace htpipe::pt2
