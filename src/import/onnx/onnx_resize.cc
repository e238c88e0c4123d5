// Resize of every opset, and Upsample.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

constexpr std::int64_t kLongest = 1 << 24;  ///< axis of a result

/// A Resize with sizes and scales for every axis.
struct Form {
  IntList sizes;
  std::vector<float> scales;
  std::string mode = "nearest";
  std::string transformation = "half_pixel";
  std::string nearest = "round_prefer_floor";
  float cubic_coeff = -0.75F;
  bool exclude_outside = false;
  bool antialias = false;
};

Attributes attributes_of(const Form& form, const IntList& axes) {
  IntList sizes;
  std::vector<float> scales;
  for (const std::int64_t axis : axes) {
    sizes.push_back(form.sizes[static_cast<std::size_t>(axis)]);
    scales.push_back(form.scales[static_cast<std::size_t>(axis)]);
  }
  return {{"sizes", sizes},
          {"scales", scales},
          {"interpolation_mode", form.mode},
          {"transformation_mode", form.transformation},
          {"nearest_mode", form.nearest},
          {"cubic_coeff", form.cubic_coeff},
          {"exclude_outside", form.exclude_outside},
          {"antialias", form.antialias}};
}

bool stays(const Form& form, const Shape& shape, std::size_t axis) {
  return form.sizes[axis] == shape[axis] && form.scales[axis] == 1.0F;
}

/// Our operator resamples all axes behind the first two.
Result<Value*> resample(Call& call, Value* input, const Form& form, std::string_view suffix) {
  const Shape shape = input->type.shape;
  const std::int64_t rank = rank_of(input);
  bool any = false;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) any = any || !stays(form, shape, axis);
  if (!any) return input;
  if (rank > 2 && stays(form, shape, 0) && stays(form, shape, 1)) {
    return call.add("Resize", attributes_of(form, count_up(2, rank)), {input}, suffix);
  }
  if (rank > 3 && stays(form, shape, 0) && stays(form, shape, static_cast<std::size_t>(rank) - 1)) {
    // Channels stand last.
    IntList to_nchw = count_up(0, rank - 1);
    to_nchw.insert(to_nchw.begin() + 1, rank - 1);
    IntList to_nhwc = count_up(2, rank);
    to_nhwc.insert(to_nhwc.begin(), 0);
    to_nhwc.push_back(1);
    HTPIPE_TRY(Value * first, call.transpose(input, to_nchw, "channel_first"));
    HTPIPE_TRY(Value * resized, call.add("Resize", attributes_of(form, count_up(1, rank - 1)), {first}, "resized"));
    return call.transpose(resized, to_nhwc, suffix);
  }
  Shape raised = shape;
  raised.insert(raised.begin(), 2, 1);
  HTPIPE_TRY(Value * image, call.reshape(input, raised, "image"));
  HTPIPE_TRY(Value * resized, call.add("Resize", attributes_of(form, count_up(0, rank)), {image}, "resized"));
  return call.reshape(resized, form.sizes, suffix);
}

/// Upsample, and Resize before opset 11: a nearest neighbour lies below when growing, above when shrinking.
Result<Value*> resample_old(Call& call, Value* input, const std::vector<float>& scales) {
  HTPIPE_TRY(const std::string mode, call.text("mode", "nearest"));
  const Shape& shape = input->type.shape;
  if (scales.size() != shape.size()) {
    return fail(Code::kOnnxInvalid, fmt::format("{} scales for {}", scales.size(), to_string(shape)));
  }
  if (mode != "nearest" && mode != "linear" && mode != "bilinear") {
    return fail(Code::kUnsupportedForm, fmt::format("mode {}", mode));
  }
  Form growing;
  growing.sizes = shape;
  growing.scales.assign(shape.size(), 1.0F);
  growing.mode = mode == "nearest" ? "nearest" : "linear";
  growing.transformation = "asymmetric";
  growing.nearest = "floor";
  Form shrinking = growing;
  shrinking.nearest = "ceil";
  bool shrinks = false;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const bool apart = growing.mode == "nearest" && scales[axis] < 1.0F;
    if (!(scales[axis] > 0.0F && scales[axis] * static_cast<float>(shape[axis]) <= static_cast<float>(kLongest))) {
      return fail(Code::kOnnxInvalid, fmt::format("scale {}", scales[axis]));
    }
    const auto size = static_cast<std::int64_t>(std::floor(static_cast<float>(shape[axis]) * scales[axis]));
    Form& form = apart ? shrinking : growing;
    form.sizes[axis] = size;
    form.scales[axis] = scales[axis];
    if (!apart) shrinking.sizes[axis] = size;
    shrinks = shrinks || apart;
  }
  HTPIPE_TRY(Value * grown, resample(call, input, growing, shrinks ? "grown" : ""));
  return shrinks ? resample(call, grown, shrinking, "") : Result<Value*>(grown);
}

/// The optional input `index`, when it has elements.
bool filled_input(const Call& call, std::size_t index) {
  return call.has(index) && call.inputs()[index]->type.count() > 0;
}

/// The axes that scales, sizes and roi speak of.
Result<IntList> axes_of(const Call& call, std::int64_t rank) {
  HTPIPE_TRY(const IntList given, call.ints("axes"));
  if (given.empty()) return count_up(0, rank);
  IntList axes;
  for (const std::int64_t axis : given) {
    HTPIPE_TRY(const std::int64_t normal, normal_axis(axis, static_cast<std::size_t>(rank)));
    if (std::find(axes.begin(), axes.end(), normal) != axes.end()) {
      return fail(Code::kOnnxInvalid, fmt::format("axis {} stands twice", normal));
    }
    axes.push_back(normal);
  }
  return axes;
}

/// Reads sizes or scales. `lengths` are the parts of the axes that are resampled (roi may cut).
Status read_sizes(const Call& call, const Shape& shape, const IntList& axes, const std::vector<double>& lengths,
                  Form& form) {
  form.sizes = shape;
  form.scales.assign(shape.size(), 1.0F);
  if (filled_input(call, 3)) {
    HTPIPE_TRY(const IntList sizes, call.integers_input(3));
    HTPIPE_TRY(const std::string policy, call.text("keep_aspect_ratio_policy", "stretch"));
    if (sizes.size() != axes.size()) return fail(Code::kOnnxInvalid, "sizes do not fit the axes");
    float common = 0.0F;
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const auto axis = static_cast<std::size_t>(axes[i]);
      if (sizes[i] < 0 || sizes[i] > kLongest || shape[axis] < 1) {
        return fail(Code::kShapeMismatch, fmt::format("an axis of {} to {}", shape[axis], sizes[i]));
      }
      form.sizes[axis] = sizes[i];
      form.scales[axis] = static_cast<float>(sizes[i]) / static_cast<float>(shape[axis]);
      const bool first = i == 0;
      if (policy == "not_larger") common = first ? form.scales[axis] : std::min(common, form.scales[axis]);
      if (policy == "not_smaller") common = first ? form.scales[axis] : std::max(common, form.scales[axis]);
    }
    if (policy == "stretch") return {};
    if (policy != "not_larger" && policy != "not_smaller") return fail(Code::kOnnxInvalid, policy);
    for (const std::int64_t axis : axes) {
      const auto at = static_cast<std::size_t>(axis);
      form.scales[at] = common;
      form.sizes[at] = static_cast<std::int64_t>(std::floor(common * static_cast<float>(shape[at]) + 0.5F));
    }
    return {};
  }
  HTPIPE_TRY(const std::vector<float> scales, call.floats_input(2));
  if (scales.size() != axes.size()) return fail(Code::kOnnxInvalid, "scales do not fit the axes");
  HTPIPE_TRY(const std::string transformation, call.text("coordinate_transformation_mode", "half_pixel"));
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    if (!(scales[i] > 0.0F && scales[i] < 1e6F)) return fail(Code::kOnnxInvalid, fmt::format("scale {}", scales[i]));
    form.scales[axis] = scales[i];
    const float size = static_cast<float>(lengths[axis]) * scales[i];
    if (!(size >= 0.0F && size <= static_cast<float>(kLongest))) {
      return fail(Code::kShapeMismatch, fmt::format("an axis of {} by {}", lengths[axis], scales[i]));
    }
    form.sizes[axis] = static_cast<std::int64_t>(std::floor(size));
    // ONNX's reference puts the last corner at the size before it is cut, everybody else at the last element.
    if (transformation == "align_corners" && size - std::floor(size) > 1e-3F) {
      return fail(Code::kUnsupportedForm, fmt::format("align_corners with a scale that gives {} elements", size));
    }
  }
  return {};
}

/// One axis of a tf_crop_and_resize: [out, in] weights, and which outputs lie outside the image.
struct CropAxis {
  std::vector<float> weights;
  std::vector<bool> outside;
};

Result<CropAxis> crop_axis(const Form& form, std::int64_t in, std::int64_t out, double start, double end) {
  CropAxis axis;
  axis.weights.assign(static_cast<std::size_t>(in * out), 0.0F);
  for (std::int64_t i = 0; i < out; ++i) {
    const auto last = static_cast<double>(in - 1);
    const double x = out > 1
                         ? start * last + static_cast<double>(i) * (end - start) * last / static_cast<double>(out - 1)
                         : 0.5 * (start + end) * last;
    const bool outside = x < 0.0 || x > last;
    axis.outside.push_back(outside);
    if (outside) continue;
    float* row = axis.weights.data() + i * in;
    if (form.mode == "linear") {
      const auto low = static_cast<std::int64_t>(std::floor(x));
      const double part = x - static_cast<double>(low);
      row[low] = static_cast<float>(1.0 - part);
      if (low + 1 < in) row[low + 1] = static_cast<float>(part);
    } else if (form.mode == "nearest") {
      double at = std::ceil(x - 0.5);
      if (form.nearest == "round_prefer_ceil") at = std::floor(x + 0.5);
      if (form.nearest == "floor") at = std::floor(x);
      if (form.nearest == "ceil") at = std::ceil(x);
      row[std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, in - 1)] = 1.0F;
    } else {
      return fail(Code::kUnsupportedForm, "tf_crop_and_resize with cubic interpolation");
    }
  }
  return axis;
}

/// A part of the image resampled: a product with a constant matrix for each axis.
Result<Value*> crop_and_resize(Call& call, Value* input, const Form& form, const IntList& axes,
                               const std::vector<double>& starts, const std::vector<double>& ends) {
  HTPIPE_TRY(const float filler, call.real("extrapolation_value", 0.0F));
  const Shape shape = input->type.shape;
  const std::int64_t rank = rank_of(input);
  Value* value = input;
  std::vector<std::vector<bool>> outside(shape.size());
  for (const std::int64_t axis : axes) {
    const auto at = static_cast<std::size_t>(axis);
    const bool whole = form.sizes[at] == shape[at] && starts[at] == 0.0 && ends[at] == 1.0;
    if (whole) continue;
    if (shape[at] < 1 || shape[at] * form.sizes[at] > (1 << 24))
      return fail(Code::kUnsupportedForm, "too large a crop");
    HTPIPE_TRY(const CropAxis crop, crop_axis(form, shape[at], form.sizes[at], starts[at], ends[at]));
    outside[at] = crop.outside;
    HTPIPE_TRY(Value * matrix,
               call.cast(call.floats("taps", {form.sizes[at], shape[at]}, crop.weights), input->type.dtype, "taps"));
    IntList perm = count_up(0, rank);
    std::swap(perm[at], perm.back());
    HTPIPE_TRY(value, call.transpose(value, perm, "last"));
    HTPIPE_TRY(value, mat_mul(call, value, matrix, false, true, "resampled"));
    HTPIPE_TRY(value, call.transpose(value, perm, "back"));
  }
  if (filler != 0.0F) {
    std::int64_t count = 1;
    for (const std::int64_t size : form.sizes) {
      count *= size;
      if (count > kLongest) return fail(Code::kUnsupportedForm, "too large a crop");
    }
    // Outputs that lie outside are 0 so far.
    Tensor added({DType::kF32, form.sizes, std::nullopt});
    const auto data = added.mutable_data<float>();
    for (std::size_t i = 0; i < data.size(); ++i) {
      std::size_t rest = i;
      bool out = false;
      for (std::size_t at = shape.size(); at-- > 0;) {
        const auto size = static_cast<std::size_t>(form.sizes[at]);
        out = out || (!outside[at].empty() && outside[at][rest % size]);
        rest /= size;
      }
      data[i] = out ? filler : 0.0F;
    }
    HTPIPE_TRY(Value * constant, call.cast(call.constant("filler", std::move(added)), input->type.dtype, "filler"));
    return call.binary("add", value, constant);
  }
  return value;
}

}  // namespace

Result<Values> upsample(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  if (call.has_attribute("scales")) {
    HTPIPE_TRY(const std::vector<float> scales, call.reals("scales"));
    return one(resample_old(call, input, scales));
  }
  HTPIPE_TRY(const std::vector<float> scales, call.floats_input(1));
  return one(resample_old(call, input, scales));
}

Result<Values> resize(Call& call) {
  if (call.opset() < 11) return upsample(call);
  HTPIPE_TRY(Value * input, call.input(0));
  const Shape& shape = input->type.shape;
  Form form;
  HTPIPE_TRY(form.mode, call.text("mode", "nearest"));
  HTPIPE_TRY(form.transformation, call.text("coordinate_transformation_mode", "half_pixel"));
  HTPIPE_TRY(form.nearest, call.text("nearest_mode", "round_prefer_floor"));
  HTPIPE_TRY(form.cubic_coeff, call.real("cubic_coeff_a", -0.75F));
  HTPIPE_TRY(const std::int64_t exclude, call.integer("exclude_outside", 0));
  HTPIPE_TRY(const std::int64_t antialias, call.integer("antialias", 0));
  form.exclude_outside = exclude != 0;
  form.antialias = antialias != 0 && form.mode != "nearest";
  HTPIPE_TRY(const IntList axes, axes_of(call, rank_of(input)));
  std::vector<double> lengths(shape.begin(), shape.end());
  if (form.transformation != "tf_crop_and_resize") {
    HTPIPE_CHECK_OK(read_sizes(call, shape, axes, lengths, form));
    return one(resample(call, input, form, ""));
  }
  HTPIPE_TRY(const std::vector<float> roi, call.floats_input(1));
  if (roi.size() != 2 * axes.size()) return fail(Code::kOnnxInvalid, "roi does not fit the axes");
  std::vector<double> starts(shape.size(), 0.0);
  std::vector<double> ends(shape.size(), 1.0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    starts[axis] = static_cast<double>(roi[i]);
    ends[axis] = static_cast<double>(roi[axes.size() + i]);
    lengths[axis] *= ends[axis] - starts[axis];
  }
  HTPIPE_CHECK_OK(read_sizes(call, shape, axes, lengths, form));
  return one(crop_and_resize(call, input, form, axes, starts, ends));
}

}  // namespace htpipe::onnx_import::map
