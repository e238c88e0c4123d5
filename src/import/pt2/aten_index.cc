// Operators that read and write elements by index.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "import/pt2/mappers.h"
#include "ops/broadcast.h"

namespace htpipe::pt2 {
namespace {

const Shape& shape_of(const Value* value) { return value->type.shape; }

/// x[i, :, j]: where the index tensors stand, and their common shape.
struct Indexing {
  IntList axes;            ///< indexed axes of the tensor, ascending
  Values tensors;          ///< one per axis, int32 or int64
  Shape shape;             ///< what they broadcast to
  std::int64_t place = 0;  ///< where the indexed axes stand in the result
};

Result<Indexing> indexing_of(Call& call, std::size_t rank) {
  HTPIPE_TRY(const Values given, call.optional_tensors("indices"));
  if (given.size() > rank) return fail(Code::kUnsupportedForm, "more indices than axes");
  Indexing result;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i] == nullptr) continue;
    if (given[i]->type.dtype == DType::kBool) {
      return fail(Code::kUnsupportedForm, "an index by truth values gives a shape that depends on the data");
    }
    result.axes.push_back(static_cast<std::int64_t>(i));
    HTPIPE_TRY(Value * index, call.as_index(given[i]));
    result.tensors.push_back(index);
    HTPIPE_TRY(result.shape, ops::broadcast(result.shape, index->type.shape));
  }
  if (result.axes.empty()) return result;
  const bool adjacent = result.axes.back() - result.axes.front() + 1 == static_cast<std::int64_t>(result.axes.size());
  result.place = adjacent ? result.axes.front() : 0;
  return result;
}

/// All index tensors as one, [..., number of axes].
One stacked(Call& call, const Indexing& indexing) {
  Values parts;
  Shape row = indexing.shape;
  row.push_back(1);
  for (std::size_t i = 0; i < indexing.tensors.size(); ++i) {
    HTPIPE_TRY(Value * part, call.broadcast(indexing.tensors[i], indexing.shape, fmt::format("index{}", i)));
    HTPIPE_TRY(part, call.reshape(part, row, fmt::format("column{}", i)));
    parts.push_back(part);
  }
  return call.concat(std::move(parts), static_cast<std::int64_t>(indexing.shape.size()), "indices");
}

/// Indexed axes first, the others behind in order.
IntList indexed_first(const Indexing& indexing, std::size_t rank) {
  IntList order = indexing.axes;
  for (std::int64_t axis = 0; axis < static_cast<std::int64_t>(rank); ++axis) {
    if (std::find(indexing.axes.begin(), indexing.axes.end(), axis) == indexing.axes.end()) order.push_back(axis);
  }
  return order;
}

IntList inverse(const IntList& order) {
  IntList result(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    result[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return result;
}

/// Moves the first `count` axes behind the next `place` ones.
IntList moved_behind(std::size_t rank, std::size_t count, std::size_t place) {
  IntList order;
  for (std::size_t i = 0; i < place; ++i) order.push_back(static_cast<std::int64_t>(count + i));
  for (std::size_t i = 0; i < count; ++i) order.push_back(static_cast<std::int64_t>(i));
  for (std::size_t i = count + place; i < rank; ++i) order.push_back(static_cast<std::int64_t>(i));
  return order;
}

/// A mask over the first axes, with ones behind so that it broadcasts over the rest.
One mask_over(Call& call, Value* mask, std::size_t first, std::size_t rank) {
  Shape shape = shape_of(mask);
  if (first + shape.size() > rank) return fail(Code::kUnsupportedForm, "a mask of higher rank than its tensor");
  shape.resize(rank - first, 1);
  return call.reshape(mask, shape, "mask");
}

/// The first part of `value` along every axis, as large as `shape`.
One cut_to(Call& call, Value* value, const Shape& shape, std::size_t but_axis, std::string_view suffix) {
  if (shape_of(value).size() != shape.size()) return fail(Code::kUnsupportedForm, "an index of another rank");
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (axis == but_axis || shape[axis] >= shape_of(value)[axis]) continue;
    HTPIPE_TRY(value,
               call.slice(value, static_cast<std::int64_t>(axis), 0, shape[axis], fmt::format("{}{}", suffix, axis)));
  }
  return value;
}

}  // namespace

One index(Call& call) {
  HTPIPE_TRY(Value * self, call.tensor("self"));
  const std::size_t rank = shape_of(self).size();
  HTPIPE_TRY(const Indexing indexing, indexing_of(call, rank));
  if (indexing.axes.empty()) return self;
  if (indexing.axes.size() == 1) return call.add("Gather", {{"axis", indexing.axes[0]}}, {self, indexing.tensors[0]});
  HTPIPE_TRY(Value * moved, call.transpose(self, indexed_first(indexing, rank), "moved"));
  HTPIPE_TRY(Value * indices, stacked(call, indexing));
  const std::size_t count = indexing.shape.size();
  const IntList order =
      moved_behind(count + rank - indexing.axes.size(), count, static_cast<std::size_t>(indexing.place));
  const bool in_place = std::is_sorted(order.begin(), order.end());
  HTPIPE_TRY(Value * taken, call.add("GatherNd", {}, {moved, indices}, in_place ? "" : "taken"));
  return call.transpose(taken, order);
}

One index_put(Call& call) {
  HTPIPE_TRY(Value * self, call.tensor("self"));
  HTPIPE_TRY(Value * values, call.tensor("values"));
  HTPIPE_TRY(const bool accumulate, call.flag("accumulate", false));
  HTPIPE_TRY(values, call.cast(values, self->type.dtype, "values"));
  const std::size_t rank = shape_of(self).size();
  HTPIPE_TRY(const Values given, call.optional_tensors("indices"));
  const auto first = std::find_if(given.begin(), given.end(), [](const Value* value) { return value != nullptr; });
  if (first == given.end()) return fail(Code::kUnsupportedForm, "index_put without an index");
  if ((*first)->type.dtype == DType::kBool) {
    const bool alone = std::count(given.begin(), given.end(), nullptr) + 1 == static_cast<std::ptrdiff_t>(given.size());
    if (!alone || accumulate || values->type.count() != 1) {
      return fail(Code::kUnsupportedForm, "values for a mask, whose number depends on the data");
    }
    HTPIPE_TRY(Value * mask, mask_over(call, *first, static_cast<std::size_t>(first - given.begin()), rank));
    HTPIPE_TRY(values, call.reshape(values, {}, "value"));
    return call.select(mask, values, self);
  }
  HTPIPE_TRY(const Indexing indexing, indexing_of(call, rank));
  const IntList order = indexed_first(indexing, rank);
  HTPIPE_TRY(Value * moved, call.transpose(self, order, "moved"));
  HTPIPE_TRY(Value * indices, stacked(call, indexing));
  // Values have the shape of the read; ScatterNd wants the indexed axes first.
  const std::size_t count = indexing.shape.size();
  const std::size_t others = rank - indexing.axes.size();
  Shape updates = indexing.shape;
  updates.insert(updates.end(), shape_of(moved).begin() + static_cast<std::ptrdiff_t>(indexing.axes.size()),
                 shape_of(moved).end());
  const IntList behind = moved_behind(count + others, count, static_cast<std::size_t>(indexing.place));
  Shape read(updates.size());
  for (std::size_t i = 0; i < behind.size(); ++i) read[i] = updates[static_cast<std::size_t>(behind[i])];
  HTPIPE_TRY(values, call.broadcast(values, read, "broadcast"));
  HTPIPE_TRY(values, call.transpose(values, inverse(behind), "updates"));
  HTPIPE_TRY(Value * written, call.add("ScatterNd", {{"reduction", std::string(accumulate ? "add" : "none")}},
                                       {moved, indices, values}, "written"));
  return call.transpose(written, inverse(order));
}

One index_select(Call& call) {
  HTPIPE_TRY(Value * self, call.tensor("self"));
  HTPIPE_TRY(Value * indices, call.tensor("index"));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape_of(self).size()));
  HTPIPE_TRY(indices, call.as_index(indices));
  if (shape_of(indices).empty()) {
    HTPIPE_TRY(indices, call.reshape(indices, {1}, "row"));
  }
  if (shape_of(self).empty()) return self;
  return call.add("Gather", {{"axis", axis}}, {self, indices});
}

One embedding(Call& call) {
  HTPIPE_TRY(Value * weight, call.tensor("weight"));
  HTPIPE_TRY(Value * indices, call.tensor("indices"));
  HTPIPE_TRY(indices, call.as_index(indices));
  return call.add("Gather", {{"axis", std::int64_t{0}}}, {weight, indices});
}

/// take: from the flattened tensor.
One take(Call& call) {
  HTPIPE_TRY(Value * self, call.tensor("self"));
  HTPIPE_TRY(Value * indices, call.tensor("index"));
  HTPIPE_TRY(indices, call.as_index(indices));
  HTPIPE_TRY(Value * flat, call.reshape(self, {self->type.count()}, "flat"));
  return call.add("Gather", {{"axis", std::int64_t{0}}}, {flat, indices});
}

One gather(Call& call) {
  HTPIPE_TRY(Value * self, call.tensor("self"));
  HTPIPE_TRY(Value * indices, call.tensor(call.node().input("index") != nullptr ? "index" : "indices"));
  HTPIPE_TRY(indices, call.as_index(indices));
  if (shape_of(self).empty()) return call.reshape(self, shape_of(indices));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape_of(self).size()));
  if (call.argument() == "broadcast") {
    Shape shape = shape_of(self);
    Shape wide = shape_of(indices);
    if (wide.size() != shape.size()) return fail(Code::kUnsupportedForm, "an index of another rank");
    const auto at = static_cast<std::size_t>(axis);
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (i != at) shape[i] = wide[i] = std::max(shape[i], wide[i]);
    }
    HTPIPE_TRY(self, call.broadcast(self, shape, "self"));
    HTPIPE_TRY(indices, call.broadcast(indices, wide, "indices"));
  }
  HTPIPE_TRY(self, cut_to(call, self, shape_of(indices), static_cast<std::size_t>(axis), "cut"));
  return call.add("GatherElements", {{"axis", axis}}, {self, indices});
}

/// scatter, scatter_add, scatter_reduce.
One scatter(Call& call) {
  HTPIPE_TRY(Value * self, call.tensor("self"));
  HTPIPE_TRY(Value * indices, call.tensor("index"));
  HTPIPE_TRY(indices, call.as_index(indices));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape_of(self).size()));
  if (shape_of(self).empty()) return fail(Code::kUnsupportedForm, "a scatter into a scalar");
  HTPIPE_TRY(Value * source, call.tensor_or_number(call.node().input("src") != nullptr ? "src" : "value"));
  HTPIPE_TRY(source, call.cast(source, self->type.dtype, "source"));
  if (shape_of(source).empty()) {
    HTPIPE_TRY(source, call.broadcast(source, shape_of(indices), "source"));
  }
  HTPIPE_TRY(source, cut_to(call, source, shape_of(indices), shape_of(indices).size(), "cut"));
  HTPIPE_TRY(const std::string word, call.text("reduce", call.argument()));
  HTPIPE_TRY(const bool with_self, call.flag("include_self", true));
  if (!with_self) return fail(Code::kUnsupportedForm, "scatter_reduce without the tensor itself");
  std::string reduction = "none";
  if (word == "add" || word == "sum") reduction = "add";
  if (word == "multiply" || word == "prod") reduction = "mul";
  if (word == "amax") reduction = "max";
  if (word == "amin") reduction = "min";
  if (reduction == "none" && !word.empty()) return fail(Code::kUnsupportedForm, "scatter of the form " + word);
  return call.add("ScatterElements", {{"axis", axis}, {"reduction", reduction}}, {self, indices, source});
}

/// index_add, index_copy, index_fill: rows by number.
One index_rows(Call& call) {
  const std::string_view name = call.argument();
  HTPIPE_TRY(Value * self, call.tensor("self"));
  HTPIPE_TRY(Value * indices, call.tensor("index"));
  HTPIPE_TRY(indices, call.as_index(indices));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape_of(self).size()));
  if (shape_of(self).empty()) return fail(Code::kUnsupportedForm, "rows of a scalar");
  Shape shape = shape_of(self);
  shape[static_cast<std::size_t>(axis)] = indices->type.count();
  HTPIPE_TRY(Value * source, call.tensor_or_number(name == "fill" ? "value" : "source"));
  HTPIPE_TRY(source, call.cast(source, self->type.dtype, "source"));
  HTPIPE_TRY(source, call.broadcast(source, shape, "rows"));
  HTPIPE_TRY(const double alpha, call.real("alpha", 1.0));
  if (alpha != 1.0) {
    HTPIPE_TRY(Value * factor, call.scalar(alpha, self->type.dtype, "alpha"));
    HTPIPE_TRY(source, call.binary("multiply", source, factor, "scaled"));
  }
  Shape column(shape.size(), 1);
  column[static_cast<std::size_t>(axis)] = indices->type.count();
  HTPIPE_TRY(indices, call.reshape(indices, column, "column"));
  HTPIPE_TRY(indices, call.broadcast(indices, shape, "indices"));
  return call.add("ScatterElements", {{"axis", axis}, {"reduction", std::string(name == "add" ? "add" : "none")}},
                  {self, indices, source});
}

One masked_fill(Call& call) {
  HTPIPE_TRY(Value * self, call.tensor("self"));
  HTPIPE_TRY(Value * mask, call.tensor("mask"));
  HTPIPE_TRY(Value * value, call.tensor_or_number("value"));
  HTPIPE_TRY(value, call.cast(value, self->type.dtype, "value"));
  HTPIPE_TRY(mask, call.cast(mask, DType::kBool, "mask"));
  return call.select(mask, value, self);
}

One where(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(Value * condition, call.tensor("condition"));
  HTPIPE_TRY(condition, call.cast(condition, DType::kBool, "condition"));
  HTPIPE_TRY(Value * a, call.tensor_or_number("self"));
  HTPIPE_TRY(Value * b, call.tensor_or_number("other"));
  HTPIPE_TRY(a, call.cast(a, dtype, "a"));
  HTPIPE_TRY(b, call.cast(b, dtype, "b"));
  return call.select(condition, a, b);
}

/// topk, sort, argsort.
Many top_k(Call& call) {
  const std::string_view name = call.argument();
  HTPIPE_TRY(Value * self, call.tensor("self"));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape_of(self).size(), -1));
  if (shape_of(self).empty()) {
    HTPIPE_TRY(Value * zero, call.integers_constant("index", {}, {0}));
    return name == "argsort" ? Values{zero} : Values{self, zero};
  }
  std::int64_t k = shape_of(self)[static_cast<std::size_t>(axis)];
  bool largest = true;
  if (name == "topk") {
    HTPIPE_TRY(k, call.integer("k"));
    HTPIPE_TRY(largest, call.flag("largest", true));
  } else {
    HTPIPE_TRY(largest, call.flag("descending", false));
  }
  const DType dtype = self->type.dtype;
  if (dtype == DType::kBool) {
    HTPIPE_TRY(self, call.cast(self, DType::kI32, "numbers"));
  }
  HTPIPE_TRY(Values results,
             call.add_many("TopK", {{"axis", axis}, {"k", k}, {"largest", largest}, {"sorted", true}}, {self}));
  if (name == "argsort") return Values{results[1]};
  return results;
}

One one_hot(Call& call) {
  HTPIPE_TRY(Value * self, call.tensor("self"));
  const TensorMeta* meta = call.declared();
  if (meta == nullptr || meta->sizes.empty()) return fail(Code::kUnsupportedForm, "one_hot of an unknown size");
  const std::int64_t classes = meta->sizes.back();
  Shape column = shape_of(self);
  column.push_back(1);
  IntList numbers(static_cast<std::size_t>(classes));
  std::iota(numbers.begin(), numbers.end(), 0);
  HTPIPE_TRY(Value * apart, call.reshape(self, column, "column"));
  HTPIPE_TRY(Value * all, call.integers_constant("classes", {classes}, numbers, self->type.dtype));
  HTPIPE_TRY(Value * hit, call.binary("equal", apart, all, "hit"));
  return call.cast(hit, DType::kI64, "");
}

/// bucketize and searchsorted of one sorted row: how many boundaries lie below.
One bucketize(Call& call) {
  const bool search = call.argument() == "search";
  HTPIPE_TRY(Value * self, call.tensor("self"));
  HTPIPE_TRY(Value * boundaries, call.tensor(search ? "sorted_sequence" : "boundaries"));
  HTPIPE_TRY(bool right, call.flag("right", false));
  if (call.has("side")) {
    HTPIPE_TRY(const std::string side, call.text("side", "left"));
    right = side == "right";
  }
  if (shape_of(boundaries).size() != 1 || call.has("sorter")) {
    return fail(Code::kUnsupportedForm, "a search in several rows");
  }
  const DType dtype = promote(self->type.dtype, boundaries->type.dtype);
  HTPIPE_TRY(self, call.cast(self, dtype, "self"));
  HTPIPE_TRY(boundaries, call.cast(boundaries, dtype, "boundaries"));
  Shape column = shape_of(self);
  column.push_back(1);
  HTPIPE_TRY(Value * apart, call.reshape(self, column, "column"));
  HTPIPE_TRY(Value * below, call.binary(right ? "greater_equal" : "greater", apart, boundaries, "below"));
  HTPIPE_TRY(Value * numbers, call.cast(below, DType::kI32, "numbers"));
  return call.reduce("ReduceSum", numbers, {static_cast<std::int64_t>(column.size()) - 1}, false);
}

}  // namespace htpipe::pt2
