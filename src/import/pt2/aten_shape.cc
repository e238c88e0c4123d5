// Operators that give the same elements another shape or order.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "import/pt2/mappers.h"
#include "ops/broadcast.h"

namespace htpipe::pt2 {
namespace {

/// The declared sizes of the first result: the exporter has worked them out.
Result<Shape> declared_shape(const Call& call) {
  const TensorMeta* meta = call.declared();
  if (meta == nullptr) return fail(Code::kUnsupportedForm, "a result whose shape is not declared");
  return meta->sizes;
}

IntList counting(std::size_t rank) {
  IntList order(rank);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Result<std::int64_t> wrap(std::int64_t axis, std::size_t rank) {
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(rank, 1));
  const std::int64_t result = axis < 0 ? axis + count : axis;
  if (result < 0 || result >= count) return fail(Code::kUnsupportedForm, fmt::format("no axis {} of {}", axis, count));
  return result;
}

const char* data_name(const Call& call) { return call.node().input("self") != nullptr ? "self" : "input"; }

}  // namespace

/// Operators that change nothing at inference.
One identity(Call& call) { return call.tensor(data_name(call)); }

Many identity_many(Call& call) {
  HTPIPE_TRY(Value * value, call.tensor(data_name(call)));
  return Values{value};
}

One no_result(Call&) { return nullptr; }

One dropout(Call& call) {
  HTPIPE_TRY(const bool train, call.flag("train", false));
  if (train) return fail(Code::kUnsupportedForm, "dropout in training mode: call model.eval() before the export");
  return call.tensor(data_name(call));
}

Many dropout_many(Call& call) {
  HTPIPE_TRY(Value * result, dropout(call));
  return Values{result};
}

/// The new type is the declared one: the importer converts.
One to_dtype(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor(data_name(call)));
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  return call.cast(input, dtype, "");
}

/// view, reshape, flatten, unflatten, squeeze, unsqueeze …: the declared shape tells all.
One reshape_as_declared(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor(data_name(call)));
  HTPIPE_TRY(const Shape shape, declared_shape(call));
  return call.reshape(input, shape);
}

One permute_axes(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(IntList order, call.integers("dims", 0));
  const std::size_t rank = input->type.shape.size();
  if (order.size() != rank) return fail(Code::kUnsupportedForm, "permute of another rank");
  for (std::int64_t& axis : order) {
    HTPIPE_TRY(axis, wrap(axis, rank));
  }
  IntList sorted = order;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != counting(rank)) return fail(Code::kUnsupportedForm, "permute with an axis that occurs twice");
  return call.transpose(input, order);
}

One swap_axes(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  const std::size_t rank = input->type.shape.size();
  std::int64_t a = -2;
  std::int64_t b = -1;
  if (call.argument() == "t") {
    if (rank < 2) return input;
  } else if (call.argument() == "names") {
    HTPIPE_TRY(a, call.integer("axis0"));
    HTPIPE_TRY(b, call.integer("axis1"));
  } else if (call.argument() != "last") {
    HTPIPE_TRY(a, call.integer("dim0"));
    HTPIPE_TRY(b, call.integer("dim1"));
  }
  HTPIPE_TRY(a, wrap(a, rank));
  HTPIPE_TRY(b, wrap(b, rank));
  IntList order = counting(rank);
  if (rank > 0) std::swap(order[static_cast<std::size_t>(a)], order[static_cast<std::size_t>(b)]);
  return call.transpose(input, order);
}

/// numpy's x.T: all axes the other way round.
One reverse_axes(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  IntList order = counting(input->type.shape.size());
  std::reverse(order.begin(), order.end());
  return call.transpose(input, order);
}

One move_axes(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  const std::size_t rank = input->type.shape.size();
  HTPIPE_TRY(const IntList source, call.integers("source", 0));
  HTPIPE_TRY(const IntList destination, call.integers("destination", 0));
  if (source.size() != destination.size()) return fail(Code::kUnsupportedForm, "movedim with unequal lists");
  IntList order(rank, -1);
  std::vector<bool> taken(rank, false);
  for (std::size_t i = 0; i < source.size(); ++i) {
    HTPIPE_TRY(const std::int64_t from, wrap(source[i], rank));
    HTPIPE_TRY(const std::int64_t to, wrap(destination[i], rank));
    order[static_cast<std::size_t>(to)] = from;
    taken[static_cast<std::size_t>(from)] = true;
  }
  std::int64_t next = 0;
  for (std::int64_t& axis : order) {
    if (axis >= 0) continue;
    while (taken[static_cast<std::size_t>(next)]) ++next;
    axis = next++;
  }
  return call.transpose(input, order);
}

One expand(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const Shape shape, declared_shape(call));
  return call.broadcast(input, shape);
}

Many broadcast_tensors(Call& call) {
  HTPIPE_TRY(Values inputs, call.tensors("tensors"));
  Shape shape;
  for (const Value* input : inputs) {
    HTPIPE_TRY(shape, ops::broadcast(shape, input->type.shape));
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    HTPIPE_TRY(inputs[i], call.broadcast(inputs[i], shape, fmt::format("{}", i)));
  }
  return inputs;
}

One repeat(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(IntList repeats, call.integers(call.node().input("repeats") != nullptr ? "repeats" : "dims", 0));
  Shape shape = input->type.shape;
  if (repeats.size() < shape.size()) repeats.insert(repeats.begin(), shape.size() - repeats.size(), 1);
  shape.insert(shape.begin(), repeats.size() - shape.size(), 1);
  HTPIPE_TRY(input, call.reshape(input, shape, "rank"));
  if (std::all_of(repeats.begin(), repeats.end(), [](std::int64_t r) { return r == 1; })) return input;
  return call.add("Tile", {{"multiples", repeats}}, {input});
}

/// Each element several times in a row: a new axis behind, which is tiled and folded in.
One repeat_interleave(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const std::int64_t repeats, call.integer("repeats"));
  Shape shape = input->type.shape;
  HTPIPE_TRY(const Shape result, declared_shape(call));
  if (!call.has("dim")) {
    shape = {input->type.count()};
    HTPIPE_TRY(input, call.reshape(input, shape, "flat"));
  }
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape.size(), 0));
  Shape wide = shape;
  wide.insert(wide.begin() + axis + 1, 1);
  HTPIPE_TRY(Value * apart, call.reshape(input, wide, "apart"));
  wide[static_cast<std::size_t>(axis) + 1] = repeats;
  HTPIPE_TRY(Value * tiled, call.broadcast(apart, wide, "tiled"));
  return call.reshape(tiled, result);
}

One cat(Call& call) {
  HTPIPE_TRY(Values inputs, call.tensors("tensors"));
  if (inputs.empty()) return fail(Code::kUnsupportedForm, "cat without tensors");
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  // An empty tensor of rank 1 may stand among others.
  std::size_t rank = 1;
  for (const Value* input : inputs) rank = std::max(rank, input->type.shape.size());
  Values parts;
  for (Value* input : inputs) {
    if (rank > 1 && input->type.shape == Shape{0}) continue;
    HTPIPE_TRY(input, call.cast(input, dtype, "part"));
    parts.push_back(input);
  }
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", rank, 0));
  return call.concat(std::move(parts), axis);
}

One stack(Call& call) {
  HTPIPE_TRY(Values inputs, call.tensors("tensors"));
  if (inputs.empty()) return fail(Code::kUnsupportedForm, "stack without tensors");
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  Shape shape = inputs.front()->type.shape;
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape.size() + 1, 0));
  shape.insert(shape.begin() + axis, 1);
  for (Value*& input : inputs) {
    HTPIPE_TRY(input, call.cast(input, dtype, "part"));
    HTPIPE_TRY(input, call.reshape(input, shape, "row"));
  }
  return call.concat(std::move(inputs), axis);
}

/// hstack, vstack, dstack, column_stack: along an axis, after ranks were raised.
One stack_along(Call& call) {
  HTPIPE_TRY(Values inputs, call.tensors("tensors"));
  if (inputs.empty()) return fail(Code::kUnsupportedForm, "stack without tensors");
  const std::string_view name = call.argument();
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  std::int64_t axis = name == "h" || name == "c" ? 1 : name == "v" ? 0 : 2;
  for (Value*& input : inputs) {
    HTPIPE_TRY(input, call.cast(input, dtype, "part"));
    Shape shape = input->type.shape;
    if (name == "c") {
      if (shape.size() < 2) shape = {input->type.count(), 1};
    } else if (name == "h") {
      if (shape.empty()) shape = {1};
      if (shape.size() == 1) axis = 0;
    } else {
      if (shape.empty()) shape = {1};
      if (shape.size() == 1) shape.insert(shape.begin(), 1);
      if (name == "d" && shape.size() == 2) shape.push_back(1);
    }
    HTPIPE_TRY(input, call.reshape(input, shape, "raised"));
  }
  return call.concat(std::move(inputs), axis);
}

One flip(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  const Shape& shape = input->type.shape;
  HTPIPE_TRY(IntList given, call.integers("dims", 0));
  if (call.argument() == "lr") given = {1};
  if (call.argument() == "ud") given = {0};
  if (given.empty() || shape.empty()) return input;
  IntList begin(shape.size(), 0);
  IntList end = shape;
  IntList strides(shape.size(), 1);
  for (const std::int64_t dim : given) {
    HTPIPE_TRY(const std::int64_t axis, wrap(dim, shape.size()));
    const auto at = static_cast<std::size_t>(axis);
    begin[at] = shape[at] - 1;
    end[at] = -1;
    strides[at] = -1;
  }
  if (input->type.count() == 0) return input;
  return call.add("StridedSlice", {{"begin", begin}, {"end", end}, {"strides", strides}}, {input});
}

One roll(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const IntList shifts, call.integers("shifts", 0));
  HTPIPE_TRY(IntList dims, call.integers("dims", 0));
  const Shape shape = input->type.shape;
  if (input->type.count() == 0) return input;
  const bool flat = dims.empty();
  if (flat) {
    HTPIPE_TRY(input, call.reshape(input, {input->type.count()}, "flat"));
    dims = {0};
  }
  if (shifts.size() != dims.size()) return fail(Code::kUnsupportedForm, "roll with unequal lists");
  for (std::size_t i = 0; i < dims.size(); ++i) {
    HTPIPE_TRY(const std::int64_t axis, wrap(dims[i], input->type.shape.size()));
    const std::int64_t size = input->type.shape[static_cast<std::size_t>(axis)];
    const std::int64_t shift = ((shifts[i] % size) + size) % size;
    if (shift == 0) continue;
    HTPIPE_TRY(Value * tail, call.slice(input, axis, size - shift, size, fmt::format("tail{}", i)));
    HTPIPE_TRY(Value * front, call.slice(input, axis, 0, size - shift, fmt::format("front{}", i)));
    const bool last = i + 1 == dims.size() && !flat;
    HTPIPE_TRY(input, call.concat({tail, front}, axis, last ? "" : fmt::format("rolled{}", i)));
  }
  return flat ? call.reshape(input, shape) : One(input);
}

/// Channels of r*r neighbours become pixels, or the reverse.
One pixel_shuffle(Call& call) {
  const bool up = call.argument() == "up";
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const std::int64_t r, call.integer(up ? "upscale_factor" : "downscale_factor"));
  const Shape& shape = input->type.shape;
  HTPIPE_TRY(const Shape result, declared_shape(call));
  if (shape.size() < 3 || r < 1) return fail(Code::kUnsupportedForm, "pixel_shuffle of " + to_string(shape));
  const std::int64_t c = shape[shape.size() - 3];
  const std::int64_t h = shape[shape.size() - 2];
  const std::int64_t w = shape[shape.size() - 1];
  const std::int64_t n = std::accumulate(shape.begin(), shape.end() - 3, std::int64_t{1}, std::multiplies<>());
  if (up && shape.size() == 4 && c % (r * r) == 0) {
    return call.add("DepthToSpace",
                    {{"block_size", IntList{r, r}}, {"mode", std::string("crd")}, {"data_layout", std::string("nchw")}},
                    {input});
  }
  const Shape apart = up ? Shape{n, c / (r * r), r, r, h, w} : Shape{n, c, h / r, r, w / r, r};
  const IntList order = up ? IntList{0, 1, 4, 2, 5, 3} : IntList{0, 1, 3, 5, 2, 4};
  if (element_count(apart) != input->type.count())
    return fail(Code::kUnsupportedForm, "pixel_shuffle with a remainder");
  HTPIPE_TRY(Value * split, call.reshape(input, apart, "apart"));
  HTPIPE_TRY(Value * moved, call.transpose(split, order, "moved"));
  return call.reshape(moved, result);
}

One channel_shuffle(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const std::int64_t groups, call.integer("groups"));
  const Shape shape = input->type.shape;
  if (shape.size() < 3 || groups < 1 || shape[1] % groups != 0) {
    return fail(Code::kUnsupportedForm, "channel_shuffle of " + to_string(shape));
  }
  const std::int64_t rest = std::accumulate(shape.begin() + 2, shape.end(), std::int64_t{1}, std::multiplies<>());
  HTPIPE_TRY(Value * split, call.reshape(input, {shape[0], groups, shape[1] / groups, rest}, "apart"));
  HTPIPE_TRY(Value * moved, call.transpose(split, {0, 2, 1, 3}, "moved"));
  return call.reshape(moved, shape);
}

Many meshgrid(Call& call) {
  HTPIPE_TRY(Values inputs, call.tensors("tensors"));
  HTPIPE_TRY(const std::string indexing, call.text("indexing", "ij"));
  Shape grid;
  for (const Value* input : inputs) grid.push_back(input->type.count());
  const bool swapped = indexing == "xy" && grid.size() >= 2;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Shape shape(grid.size(), 1);
    shape[i] = grid[i];
    HTPIPE_TRY(inputs[i], call.reshape(inputs[i], shape, fmt::format("axis{}", i)));
    HTPIPE_TRY(inputs[i], call.broadcast(inputs[i], grid, fmt::format("grid{}", i)));
    if (!swapped) continue;
    IntList order = counting(grid.size());
    std::swap(order[0], order[1]);
    HTPIPE_TRY(inputs[i], call.transpose(inputs[i], order, fmt::format("xy{}", i)));
  }
  return inputs;
}

}  // namespace htpipe::pt2
