#include "import/compose/windows.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

namespace htpipe::compose {

Result<IntList> per_axis(const IntList& list, std::size_t axes, std::int64_t fallback, std::int64_t low,
                         std::string_view what) {
  constexpr std::int64_t kHighest = 1 << 20;
  IntList result = list;
  if (list.empty()) result.assign(axes, fallback);
  if (list.size() == 1) result.assign(axes, list.front());
  const bool fits = result.size() == axes && std::all_of(result.begin(), result.end(),
                                                         [low](std::int64_t x) { return x >= low && x <= kHighest; });
  if (!fits) {
    return fail(Code::kUnsupportedForm,
                fmt::format("{} {} for {} spatial axes", what, to_string(Attribute(list)), axes));
  }
  return result;
}

Result<std::size_t> spatial_axes(const Value* input) {
  const Shape& shape = input->type.shape;
  if (shape.size() < 3 || shape.size() > 5) {
    return fail(Code::kUnsupportedForm, fmt::format("{} has not one to three spatial axes", to_string(shape)));
  }
  return shape.size() - 2;
}

IntList interleaved(const IntList& before, const IntList& after) {
  IntList both;
  for (std::size_t i = 0; i < before.size(); ++i) {
    both.push_back(before[i]);
    both.push_back(after[i]);
  }
  return both;
}

Result<Value*> crop_negative(Builder& builder, Value* input, IntList& pad_begin, IntList& pad_end) {
  const Shape& shape = input->type.shape;
  IntList begin(shape.size(), 0);
  IntList end = shape;
  bool cropped = false;
  for (std::size_t i = 0; i < pad_begin.size(); ++i) {
    const std::size_t axis = shape.size() - pad_begin.size() + i;
    begin[axis] = std::max<std::int64_t>(0, -pad_begin[i]);
    end[axis] += std::min<std::int64_t>(0, pad_end[i]);
    cropped = cropped || begin[axis] != 0 || end[axis] != shape[axis];
    if (end[axis] < begin[axis]) {
      return fail(Code::kShapeMismatch, fmt::format("negative padding leaves nothing of {}", to_string(shape)));
    }
    pad_begin[i] = std::max<std::int64_t>(0, pad_begin[i]);
    pad_end[i] = std::max<std::int64_t>(0, pad_end[i]);
  }
  if (!cropped) return input;
  return builder.add("StridedSlice", {{"begin", begin}, {"end", end}, {"strides", IntList(shape.size(), 1)}}, {input},
                     "cropped");
}

Result<Value*> add_height(Builder& builder, Value* value, std::string_view suffix) {
  Shape shape = value->type.shape;
  shape.insert(shape.end() - 1, 1);
  return builder.reshape(value, shape, suffix);
}

Result<Value*> drop_height(Builder& builder, Value* value) {
  Shape shape = value->type.shape;
  shape.erase(shape.end() - 2);
  return builder.reshape(value, shape);
}

}  // namespace htpipe::compose
