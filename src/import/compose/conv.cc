#include "import/compose/conv.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "import/compose/windows.h"

namespace htpipe::compose {
namespace {

/// The specification with a number per axis.
struct Form {
  std::size_t axes = 2;
  IntList stride, pad_begin, pad_end, dilation, output_padding;
  std::int64_t group = 1;
};

Result<Form> form_of(const Value* input, const Value* weight, const ConvSpec& spec) {
  constexpr std::int64_t kLowestPadding = -(1 << 20);
  Form form;
  HTPIPE_TRY(form.axes, spatial_axes(input));
  if (weight->type.shape.size() != form.axes + 2) {
    return fail(Code::kShapeMismatch,
                fmt::format("weights {} for {}", to_string(weight->type.shape), to_string(input->type.shape)));
  }
  HTPIPE_TRY(form.stride, per_axis(spec.stride, form.axes, 1, 1, "stride"));
  HTPIPE_TRY(form.pad_begin, per_axis(spec.pad_begin, form.axes, 0, kLowestPadding, "padding"));
  HTPIPE_TRY(form.pad_end, per_axis(spec.pad_end, form.axes, 0, kLowestPadding, "padding"));
  HTPIPE_TRY(form.dilation, per_axis(spec.dilation, form.axes, 1, 1, "dilation"));
  HTPIPE_TRY(form.output_padding, per_axis(spec.output_padding, form.axes, 0, 0, "output padding"));
  form.group = spec.group;
  return form;
}

Form with_height(Form form) {
  form.axes = 2;
  form.stride.insert(form.stride.begin(), 1);
  form.pad_begin.insert(form.pad_begin.begin(), 0);
  form.pad_end.insert(form.pad_end.begin(), 0);
  form.dilation.insert(form.dilation.begin(), 1);
  form.output_padding.insert(form.output_padding.begin(), 0);
  return form;
}

std::string sized(std::string_view op, std::size_t axes) { return fmt::format("{}{}d", op, axes); }

Result<Value*> forward(Builder& builder, Value* input, Value* weight, Value* bias, Form form, std::string_view suffix) {
  HTPIPE_TRY(input, crop_negative(builder, input, form.pad_begin, form.pad_end));
  Attributes attributes = {
      {"stride", form.stride}, {"pad_amount", interleaved(form.pad_begin, form.pad_end)}, {"dilation", form.dilation}};
  const std::int64_t channels = input->type.shape[1];
  const bool depthwise = form.axes == 2 && form.group > 1 && form.group == channels && weight->type.shape[1] == 1;
  if (depthwise) return builder.add("DepthWiseConv2d", std::move(attributes), {input, weight, bias}, suffix);
  attributes.set("group", form.group);
  return builder.add(sized("Conv", form.axes), std::move(attributes), {input, weight, bias}, suffix);
}

/// Weights with dilation - 1 zeros between their cells along spatial axis `i`.
Result<Value*> spread(Builder& builder, Value* weight, std::size_t i, std::int64_t dilation) {
  const Shape shape = weight->type.shape;
  const std::size_t axis = i + 2;
  const std::int64_t cells = shape[axis];
  if (cells < 1 || cells > (1 << 20)) {
    return fail(Code::kShapeMismatch, fmt::format("weights {} cannot be dilated", to_string(shape)));
  }
  Shape split = shape;
  split.insert(split.begin() + static_cast<std::ptrdiff_t>(axis) + 1, 1);
  HTPIPE_TRY(Value * column, builder.reshape(weight, split, "cells"));
  IntList pads(2 * split.size(), 0);
  pads[2 * (axis + 1) + 1] = dilation - 1;
  HTPIPE_TRY(Value * padded, builder.add("Pad", {{"pad_amount", pads}}, {column}, "zeros"));
  Shape joined = shape;
  joined[axis] = cells * dilation;
  HTPIPE_TRY(Value * wide, builder.reshape(padded, joined, "spread"));
  IntList end = joined;
  end[axis] -= dilation - 1;
  return builder.add("StridedSlice",
                     {{"begin", IntList(end.size(), 0)}, {"end", end}, {"strides", IntList(end.size(), 1)}}, {wide},
                     "weight");
}

/// Adds [c] to [n,c,...].
Result<Value*> add_bias(Builder& builder, Value* value, Value* bias, std::string_view suffix) {
  Shape shape(value->type.shape.size() - 1, 1);
  shape[0] = value->type.shape[1];
  HTPIPE_TRY(Value * column, builder.reshape(bias, shape, "bias"));
  return builder.binary("add", value, column, suffix);
}

Result<Value*> transposed(Builder& builder, Value* input, Value* weight, Value* bias, Form form,
                          std::string_view suffix) {
  for (std::size_t i = 0; i < form.axes; ++i) {
    if (form.dilation[i] == 1 || weight->type.shape[i + 2] == 1) continue;
    HTPIPE_TRY(weight, spread(builder, weight, i, form.dilation[i]));
  }
  // Negative padding makes the result larger: at the end that is output padding, in front it is zeros before the bias.
  IntList grown(2 * (form.axes + 2), 0);
  bool grows = false;
  for (std::size_t i = 0; i < form.axes; ++i) {
    if (form.pad_end[i] < 0) form.output_padding[i] -= form.pad_end[i];
    if (form.pad_begin[i] < 0) grown[2 * (i + 2)] = -form.pad_begin[i];
    grows = grows || form.pad_begin[i] < 0;
    form.pad_begin[i] = std::max<std::int64_t>(0, form.pad_begin[i]);
    form.pad_end[i] = std::max<std::int64_t>(0, form.pad_end[i]);
  }
  Attributes attributes = {{"stride", form.stride},
                           {"pad_amount", interleaved(form.pad_begin, form.pad_end)},
                           {"output_padding", form.output_padding},
                           {"group", form.group}};
  const std::string op = sized("TransposeConv", form.axes);
  if (!grows) return builder.add(op, std::move(attributes), {input, weight, bias}, suffix);
  HTPIPE_TRY(Value * inner, builder.add(op, std::move(attributes), {input, weight, nullptr}, "inner"));
  HTPIPE_TRY(Value * padded, builder.add("Pad", {{"pad_amount", grown}}, {inner}, bias == nullptr ? suffix : "padded"));
  return bias == nullptr ? Result<Value*>(padded) : add_bias(builder, padded, bias, suffix);
}

}  // namespace

Result<Value*> conv(Builder& builder, Value* input, Value* weight, Value* bias, const ConvSpec& spec) {
  HTPIPE_TRY(Form form, form_of(input, weight, spec));
  const auto add = spec.transposed ? transposed : forward;
  if (form.axes > 1) return add(builder, input, weight, bias, form, {});
  HTPIPE_TRY(Value * image, add_height(builder, input, "image"));
  HTPIPE_TRY(Value * kernel, add_height(builder, weight, "kernel"));
  HTPIPE_TRY(Value * result, add(builder, image, kernel, bias, with_height(form), "conv"));
  return drop_height(builder, result);
}

}  // namespace htpipe::compose
