// Resize: ONNX's own where it computes the same, else a Gather or a product with the filter's matrix along each axis.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "export/onnx/operators.h"
#include "ops/resize.h"

namespace htpipe::onnx_export {
namespace {

std::vector<ops::ResizeAxis> axes_of(const NodeWriter& out) {
  const Attributes& attributes = out.attributes();
  const IntList& sizes = attributes.integers("sizes");
  const auto& scales = std::get<std::vector<float>>(*attributes.find("scales"));
  std::vector<ops::ResizeAxis> axes;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    ops::ResizeAxis axis;
    axis.interpolation = attributes.text("interpolation_mode");
    axis.transformation = attributes.text("transformation_mode");
    axis.nearest = attributes.text("nearest_mode");
    axis.cubic_coeff = static_cast<double>(attributes.real("cubic_coeff"));
    axis.exclude_outside = attributes.flag("exclude_outside");
    axis.antialias = attributes.flag("antialias");
    axis.in = out.shape()[i + (is_channel_last(out) ? 1 : 2)];
    axis.out = sizes[i];
    axis.scale = scales.empty() ? 0.0F : scales[i];
    axes.push_back(std::move(axis));
  }
  return axes;
}

/// The input of an output position as ONNX Runtime finds it, in float32.
float runtime_position(const ops::ResizeAxis& axis, std::int64_t out) {
  const float scale = axis.scale > 0.0F ? axis.scale : static_cast<float>(axis.out) / static_cast<float>(axis.in);
  const auto x = static_cast<float>(out);
  const float half_pixel = (x + 0.5F) / scale - 0.5F;
  if (axis.transformation == "asymmetric") return x / scale;
  if (axis.transformation == "pytorch_half_pixel") return axis.out > 1 ? half_pixel : 0.0F;
  if (axis.transformation == "align_corners") {
    return axis.out == 1 ? 0.0F : x * static_cast<float>(axis.in - 1) / static_cast<float>(axis.out - 1);
  }
  if (axis.transformation == "half_pixel_symmetric") {
    const float adjustment = static_cast<float>(axis.out) / (scale * static_cast<float>(axis.in));
    const float centre = static_cast<float>(axis.in) / 2;
    return centre * (1 - adjustment) + half_pixel;
  }
  return half_pixel;
}

std::int64_t runtime_nearest(const std::string& mode, float x, std::int64_t size) {
  float picked = std::floor(x);
  if (mode == "ceil") picked = std::ceil(x);
  if (mode == "round_prefer_floor") picked = std::ceil(x - 0.5F);
  if (mode == "round_prefer_ceil") picked = std::floor(x + 0.5F);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(picked), 0, size - 1);
}

/// Whether ONNX Runtime picks the same neighbours: a rounding error at a tie moves a whole pixel.
bool picks_the_same(const ops::ResizeAxis& axis, const ops::Taps& taps) {
  for (std::int64_t i = 0; i < axis.out; ++i) {
    if (runtime_nearest(axis.nearest, runtime_position(axis, i), axis.in) != taps.index[static_cast<std::size_t>(i)]) {
      return false;
    }
  }
  return true;
}

bool has_operator(const NodeWriter& out, const std::vector<ops::ResizeAxis>& axes, const std::vector<ops::Taps>& taps) {
  const ops::ResizeAxis& first = axes.front();
  const std::string& transformation = first.transformation;
  if (transformation == "tf_half_pixel_for_nn") return false;
  if (transformation == "half_pixel_symmetric" && out.opset() < 19) return false;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    // The operator takes sizes or scales, not both.
    if (axes[i].scale > 0.0F &&
        static_cast<std::int64_t>(std::floor(axes[i].scale * static_cast<float>(axes[i].in))) != axes[i].out) {
      return false;
    }
    if (first.interpolation == "nearest" && !picks_the_same(axes[i], taps[i])) return false;
  }
  if (first.interpolation == "nearest") {
    const DType dtype = out.dtype();
    return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kI32 || dtype == DType::kU8;
  }
  // ONNX Runtime's own limits.
  const bool image = axes.size() == 2;
  if (first.antialias) return out.opset() >= 18 && image;
  return first.interpolation == "linear" || image;
}

void emit_operator(NodeWriter& out, const std::vector<ops::ResizeAxis>& axes) {
  const ops::ResizeAxis& first = axes.front();
  const std::string input = channel_first_input(out);
  Settings settings = {{"mode", first.interpolation}, {"coordinate_transformation_mode", first.transformation}};
  if (first.interpolation == "nearest") settings.emplace_back("nearest_mode", first.nearest);
  if (first.interpolation == "cubic") {
    settings.emplace_back("cubic_coeff_a", static_cast<float>(first.cubic_coeff));
  }
  // Without antialias a linear filter has no weight outside but at the edge, where it makes no difference.
  const bool excludes = first.exclude_outside && (first.interpolation == "cubic" || first.antialias);
  if (excludes) settings.emplace_back("exclude_outside", std::int64_t{1});
  if (first.antialias) settings.emplace_back("antialias", std::int64_t{1});
  if (first.scale > 0.0F) {
    std::vector<float> scales = {1.0F, 1.0F};
    for (const ops::ResizeAxis& axis : axes) scales.push_back(axis.scale);
    const Shape shape = {static_cast<std::int64_t>(scales.size())};
    out.emit("Resize", {input, "", out.floats("scales", shape, scales, DType::kF32)}, settings);
    return;
  }
  const Shape& shape = out.result_shape();
  const Shape sizes = is_channel_last(out) ? permute(shape, to_channel_first(shape.size())) : shape;
  out.emit("Resize", {input, "", "", out.integers("sizes", sizes)}, settings);
}

/// The filter of an axis as a matrix [in, out].
std::vector<float> matrix_of(const ops::ResizeAxis& axis, const ops::Taps& taps) {
  std::vector<float> matrix(static_cast<std::size_t>(axis.in * axis.out), 0.0F);
  for (std::size_t o = 0; o < static_cast<std::size_t>(axis.out); ++o) {
    for (std::size_t t = taps.begin[o]; t < taps.begin[o + 1]; ++t) {
      matrix[static_cast<std::size_t>(taps.index[t] * axis.out) + o] += taps.weight[t];
    }
  }
  return matrix;
}

/// One axis of a channel-first value resampled; the `last` one gives the node's result.
std::string resample(NodeWriter& out, const std::string& input, std::size_t at, const ops::ResizeAxis& axis,
                     const ops::Taps& taps, bool last) {
  const auto make = [&](std::string_view op_type, const Names& inputs, const Settings& settings) {
    if (!last) return out.inner(op_type, inputs, "resampled", settings);
    out.emit(op_type, inputs, settings);
    return std::string();
  };
  if (axis.interpolation == "nearest") {
    return make("Gather", {input, out.integers("indices", taps.index)}, {{"axis", static_cast<std::int64_t>(at)}});
  }
  const std::size_t rank = out.rank();
  const std::string matrix = out.floats("filter", {axis.in, axis.out}, matrix_of(axis, taps), out.dtype());
  if (at + 1 == rank) return make("MatMul", {input, matrix}, {});
  IntList perm;
  for (std::size_t i = 0; i < rank; ++i) perm.push_back(static_cast<std::int64_t>(i));
  std::swap(perm[at], perm[rank - 1]);
  const std::string turned = out.inner("Transpose", {input}, "turned", {{"perm", perm}});
  return make("Transpose", {out.inner("MatMul", {turned, matrix}, "product")}, {{"perm", perm}});
}

}  // namespace

namespace write {

Status resize(NodeWriter& out) {
  const std::vector<ops::ResizeAxis> axes = axes_of(out);
  std::vector<ops::Taps> taps;
  for (const ops::ResizeAxis& axis : axes) {
    HTPIPE_TRY(ops::Taps table, ops::make_taps(axis));
    taps.push_back(std::move(table));
  }
  if (element_count(out.result_shape()) == 0) return out.refuse("a value without elements");
  if (has_operator(out, axes, taps)) {
    emit_operator(out, axes);
    return {};
  }
  std::vector<std::size_t> moved;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (!taps[i].is_identity()) moved.push_back(i);
  }
  std::string value = channel_first_input(out);
  if (moved.empty()) out.emit("Identity", {value});
  for (const std::size_t i : moved) value = resample(out, value, i + 2, axes[i], taps[i], i == moved.back());
  return {};
}

}  // namespace write
}  // namespace htpipe::onnx_export
