#include "import/compose/pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "import/compose/windows.h"

namespace htpipe::compose {
namespace {

/// A pool with a number per axis, for which padding and output sizes are settled.
struct Form {
  std::size_t axes = 2;
  IntList kernel, stride, pad_begin, pad_end, dilation;
  bool ceil = false;
};

/// Elements, in steps of the dilation, from the first to the last cell of a window.
std::int64_t reach(const Form& form, std::size_t i) { return form.dilation[i] * (form.kernel[i] - 1) + 1; }

/// Outputs along an axis of `in` elements; below 1 when no window fits.
std::int64_t output_size(const Form& form, std::size_t i, std::int64_t in, bool ceil, bool keeps_last) {
  const std::int64_t stride = form.stride[i];
  const std::int64_t room = in + form.pad_begin[i] + form.pad_end[i] - reach(form, i) + (ceil ? stride - 1 : 0);
  if (room < 0) return 0;
  std::int64_t out = room / stride + 1;
  if (ceil && !keeps_last && (out - 1) * stride >= in + form.pad_begin[i]) --out;
  return out;
}

Result<Form> form_of(const Value* input, const PoolSpec& spec) {
  constexpr std::int64_t kLowestPadding = -(1 << 20);
  Form form;
  HTPIPE_TRY(form.axes, spatial_axes(input));
  if (spec.kernel.empty()) return fail(Code::kUnsupportedForm, "a pool without a kernel size");
  HTPIPE_TRY(form.kernel, per_axis(spec.kernel, form.axes, 1, 1, "kernel"));
  HTPIPE_TRY(form.stride, per_axis(spec.stride, form.axes, 1, 1, "stride"));
  HTPIPE_TRY(form.pad_begin, per_axis(spec.pad_begin, form.axes, 0, kLowestPadding, "padding"));
  HTPIPE_TRY(form.pad_end, per_axis(spec.pad_end, form.axes, 0, kLowestPadding, "padding"));
  HTPIPE_TRY(form.dilation, per_axis(spec.dilation, form.axes, 1, 1, "dilation"));
  return form;
}

/// Rounding up becomes an attribute where it makes a difference; `exact`, and windows that are kept in spite of where
/// they begin, make the padding at the end just as large as the windows need it.
Status settle_rounding(const Value* input, const PoolSpec& spec, bool exact, Form& form) {
  const Shape& shape = input->type.shape;
  for (std::size_t i = 0; i < form.axes; ++i) {
    const std::int64_t in = shape[i + 2];
    const std::int64_t out = output_size(form, i, in, spec.ceil_mode, spec.keeps_last_window);
    if (out < 1) {
      return fail(Code::kShapeMismatch, fmt::format("a window of {} does not fit into {} with padding {}+{}",
                                                    reach(form, i), in, form.pad_begin[i], form.pad_end[i]));
    }
    const bool same = out == output_size(form, i, in, false, false);
    if (exact || (spec.keeps_last_window && !same)) {
      const std::int64_t needed = (out - 1) * form.stride[i] + reach(form, i) - form.pad_begin[i] - in;
      form.pad_end[i] = std::max<std::int64_t>(0, needed);
    } else {
      form.ceil = form.ceil || !same;
    }
  }
  return {};
}

std::int64_t area(const Form& form) {
  std::int64_t cells = 1;
  for (const std::int64_t size : form.kernel) cells *= size;
  return cells;
}

Result<Value*> add_pool(Builder& builder, Value* input, PoolKind kind, const Form& form, bool count_padding,
                        std::string_view suffix) {
  Attributes attributes = {{"filter_size", form.kernel},
                           {"stride", form.stride},
                           {"pad_amount", interleaved(form.pad_begin, form.pad_end)},
                           {"dilation", form.dilation},
                           {"rounding_mode", std::string(form.ceil ? "ceil" : "floor")}};
  if (kind != PoolKind::kMax) attributes.set("count_pad_for_edges", count_padding);
  const std::string op = fmt::format("Pool{}{}d", kind == PoolKind::kMax ? "Max" : "Avg", form.axes);
  return builder.add(op, std::move(attributes), {input}, suffix);
}

bool is_padded(const Form& form) {
  const auto some = [](const IntList& list) {
    return std::any_of(list.begin(), list.end(), [](std::int64_t x) { return x != 0; });
  };
  return some(form.pad_begin) || some(form.pad_end);
}

/// |x|^p, and its inverse on sums.
Result<Value*> power(Builder& builder, Value* input, std::int64_t p) {
  if (p == 2) return builder.binary("multiply", input, input, "square");
  HTPIPE_TRY(Value * magnitude, builder.unary("abs", input, "abs"));
  if (p == 1) return magnitude;
  return builder.binary("power", magnitude, static_cast<double>(p), "power");
}

Result<Value*> root(Builder& builder, Value* sum, std::int64_t p, std::string_view suffix) {
  if (p == 2) return builder.unary("sqrt", sum, suffix);
  return builder.binary("power", sum, 1.0 / static_cast<double>(p), suffix);
}

/// Two or three spatial axes.
Result<Value*> pool_image(Builder& builder, Value* input, const PoolSpec& spec, Form form, std::string_view suffix) {
  HTPIPE_TRY(input, crop_negative(builder, input, form.pad_begin, form.pad_end));
  const bool sums = spec.kind == PoolKind::kLp || (spec.kind == PoolKind::kAverage && spec.divisor != 0);
  HTPIPE_CHECK_OK(settle_rounding(input, spec, sums, form));
  if (!sums) {
    const bool count_padding = spec.count_include_pad && is_padded(form);
    return add_pool(builder, input, spec.kind, form, count_padding, suffix);
  }
  // A mean over windows that all lie in the image and its padding, times their size, is a sum.
  const auto cells = static_cast<double>(area(form));
  if (spec.kind == PoolKind::kAverage) {
    HTPIPE_TRY(Value * mean, add_pool(builder, input, spec.kind, form, true, "mean"));
    return builder.binary("multiply", mean, cells / static_cast<double>(spec.divisor), suffix);
  }
  if (spec.p < 1) return fail(Code::kUnsupportedForm, fmt::format("a pool of norm {}", spec.p));
  HTPIPE_TRY(Value * powers, power(builder, input, spec.p));
  HTPIPE_TRY(Value * mean, add_pool(builder, powers, spec.kind, form, true, "mean"));
  if (spec.p == 1) return builder.binary("multiply", mean, cells, suffix);
  HTPIPE_TRY(Value * sum, builder.binary("multiply", mean, cells, "sum"));
  return root(builder, sum, spec.p, suffix);
}

/// Where the windows of an adaptive pool begin and end along an axis.
struct Span {
  std::int64_t begin;
  std::int64_t end;
};
Span adaptive_span(std::int64_t i, std::int64_t in, std::int64_t out) {
  return {i * in / out, ((i + 1) * in + out - 1) / out};
}

/// Means along one axis whose windows differ in size: a product with a constant matrix.
Result<Value*> average_axis(Builder& builder, Value* input, std::size_t axis, std::int64_t out,
                            std::string_view suffix) {
  const Shape shape = input->type.shape;
  const std::int64_t in = shape[axis];
  const bool last = axis + 1 == shape.size();
  std::vector<float> weights(static_cast<std::size_t>(in * out), 0.0F);
  for (std::int64_t i = 0; i < out; ++i) {
    const Span span = adaptive_span(i, in, out);
    for (std::int64_t k = span.begin; k < span.end; ++k) {
      const std::int64_t at = last ? k * out + i : i * in + k;
      weights[static_cast<std::size_t>(at)] = 1.0F / static_cast<float>(span.end - span.begin);
    }
  }
  HTPIPE_TRY(Value * matrix, builder.cast(builder.floats("means", last ? Shape{in, out} : Shape{out, in}, weights),
                                          input->type.dtype, "means"));
  if (last) return builder.add("MatMul", {}, {input, matrix}, suffix);
  // The axes behind become one.
  Shape joined(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
  joined.push_back(1);
  for (std::size_t i = axis + 1; i < shape.size(); ++i) joined.back() *= shape[i];
  HTPIPE_TRY(Value * columns, builder.reshape(input, joined, "columns"));
  Shape result = shape;
  result[axis] = out;
  const bool reshaped = joined.size() != shape.size();
  HTPIPE_TRY(Value * product, builder.add("MatMul", {}, {matrix, columns}, reshaped ? "product" : suffix));
  return reshaped ? builder.reshape(product, result, suffix) : Result<Value*>(product);
}

/// Maxima along one axis whose windows differ in size: slices, each reduced.
Result<Value*> maximum_axis(Builder& builder, Value* input, std::size_t axis, std::int64_t out,
                            std::string_view suffix) {
  const Shape shape = input->type.shape;
  std::vector<Value*> parts;
  for (std::int64_t i = 0; i < out; ++i) {
    const Span span = adaptive_span(i, shape[axis], out);
    IntList begin(shape.size(), 0);
    IntList end = shape;
    begin[axis] = span.begin;
    end[axis] = span.end;
    HTPIPE_TRY(Value * part,
               builder.add("StridedSlice", {{"begin", begin}, {"end", end}, {"strides", IntList(shape.size(), 1)}},
                           {input}, "window"));
    const IntList axes = {static_cast<std::int64_t>(axis)};
    HTPIPE_TRY(part, builder.add("ReduceMax", {{"axes", axes}, {"keep_dims", true}}, {part}, "max"));
    parts.push_back(part);
  }
  return builder.add("Concat", {{"axis", static_cast<std::int64_t>(axis)}}, parts, suffix);
}

}  // namespace

Result<Value*> pool(Builder& builder, Value* input, const PoolSpec& spec) {
  HTPIPE_TRY(Form form, form_of(input, spec));
  if (form.axes > 1) return pool_image(builder, input, spec, std::move(form), {});
  form.axes = 2;
  form.kernel.insert(form.kernel.begin(), 1);
  form.stride.insert(form.stride.begin(), 1);
  form.pad_begin.insert(form.pad_begin.begin(), 0);
  form.pad_end.insert(form.pad_end.begin(), 0);
  form.dilation.insert(form.dilation.begin(), 1);
  HTPIPE_TRY(Value * image, add_height(builder, input, "image"));
  HTPIPE_TRY(Value * result, pool_image(builder, image, spec, std::move(form), "pool"));
  return drop_height(builder, result);
}

Result<Value*> global_pool(Builder& builder, Value* input, PoolKind kind, std::int64_t p) {
  HTPIPE_TRY(const std::size_t axes, spatial_axes(input));
  const Shape& shape = input->type.shape;
  // The HTP has no maximum over a 3-D window.
  if (kind == PoolKind::kMax && axes == 3) {
    return builder.add("ReduceMax", {{"axes", IntList{2, 3, 4}}, {"keep_dims", true}}, {input});
  }
  PoolSpec spec;
  spec.kind = kind;
  spec.p = p;
  spec.kernel.assign(shape.begin() + 2, shape.end());
  spec.stride = spec.kernel;
  return pool(builder, input, spec);
}

Result<Value*> adaptive_pool(Builder& builder, Value* input, PoolKind kind, const IntList& sizes) {
  if (kind == PoolKind::kLp) return fail(Code::kUnsupportedForm, "an adaptive pool of a norm");
  HTPIPE_TRY(const std::size_t axes, spatial_axes(input));
  const Shape shape = input->type.shape;
  if (sizes.size() != axes) {
    return fail(Code::kUnsupportedForm, fmt::format("{} output sizes for {}", sizes.size(), to_string(shape)));
  }
  PoolSpec even;
  even.kind = kind;
  std::vector<std::size_t> uneven;
  for (std::size_t i = 0; i < axes; ++i) {
    const std::int64_t in = shape[i + 2];
    const std::int64_t out = sizes[i] < 0 ? in : sizes[i];
    constexpr std::int64_t kMost = 1 << 13;  // of an axis whose windows differ: they are listed
    if (in < 1 || out < 1 || (in % out != 0 && (in > kMost || out > kMost))) {
      return fail(Code::kUnsupportedForm,
                  fmt::format("adaptive pooling from {} to {}", to_string(shape), to_string(Attribute(sizes))));
    }
    even.kernel.push_back(in % out == 0 ? in / out : 1);
    if (in % out != 0) uneven.push_back(i);
  }
  even.stride = even.kernel;
  // Windows of equal size that do not overlap first, then the other axes one by one.
  const bool pools = std::any_of(even.kernel.begin(), even.kernel.end(), [](std::int64_t k) { return k != 1; });
  if (uneven.empty()) return pool(builder, input, even);
  Value* value = input;
  if (pools) {
    Builder first(builder.graph(), builder.name() + "_even", builder.source(), nullptr);
    HTPIPE_TRY(value, pool(first, value, even));
  }
  for (const std::size_t i : uneven) {
    const std::string suffix = i == uneven.back() ? "" : fmt::format("axis{}", i + 2);
    const auto step = kind == PoolKind::kMax ? maximum_axis : average_axis;
    HTPIPE_TRY(value, step(builder, value, i + 2, sizes[i], suffix));
  }
  return value;
}

}  // namespace htpipe::compose
