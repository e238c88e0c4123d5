// Resize: the spatial axes resampled to other sizes, axis by axis. Source: QNN operator Resize, ONNX Resize.
// PyTorch's interpolate: nearest is asymmetric with nearest_mode floor, nearest-exact is half_pixel with
// round_prefer_ceil, linear and cubic are half_pixel or align_corners; its antialias is ours with exclude_outside
// (and cubic_coeff -0.5).
#include "ops/resize.h"
#include "ops/lanes.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "ops/lanes.h"
#include "ops/movement.h"
#include "ops/normalise.h"
#include "ops/registry.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

using IntList = std::vector<std::int64_t>;

const std::vector<float>& scales_of(const NodeView& node) {
  return std::get<std::vector<float>>(*node.attributes.find("scales"));
}

Result<std::vector<ResizeAxis>> axes_of(const NodeView& node) {
  const Attributes& attributes = node.attributes;
  HTPIPE_TRY(const ChannelSizes layout, channel_sizes(node, 3));
  const Shape& shape = node.type(0).shape;
  const std::size_t spatial = shape.size() - 2;
  const IntList& sizes = attributes.integers("sizes");
  const std::vector<float>& scales = scales_of(node);
  if (sizes.size() != spatial || (!scales.empty() && scales.size() != spatial)) {
    return fail(Code::kUnsupportedForm,
                fmt::format("{} sizes and {} scales for {}", sizes.size(), scales.size(), to_string(shape)));
  }
  std::vector<ResizeAxis> axes;
  for (std::size_t i = 0; i < spatial; ++i) {
    ResizeAxis axis;
    axis.interpolation = attributes.text("interpolation_mode");
    axis.transformation = attributes.text("transformation_mode");
    axis.nearest = attributes.text("nearest_mode");
    axis.cubic_coeff = static_cast<double>(attributes.real("cubic_coeff"));
    axis.exclude_outside = attributes.flag("exclude_outside");
    axis.antialias = attributes.flag("antialias");
    axis.in = shape[i + (layout.last ? 1 : 2)];
    axis.out = sizes[i];
    axis.scale = scales.empty() ? 0.0F : scales[i];
    if (axis.out < 0 || axis.out > (1 << 24) || axis.in > (1 << 24)) {
      return fail(Code::kUnsupportedForm, fmt::format("an axis of {} becomes {}", axis.in, axis.out));
    }
    if (axis.in == 0 && axis.out > 0) return fail(Code::kShapeMismatch, "an empty axis cannot be resized");
    if (!scales.empty() && !(axis.scale > 1e-6F && axis.scale < 1e6F)) {
      return fail(Code::kUnsupportedForm, fmt::format("scale {}", axis.scale));
    }
    if (axis.antialias && axis.interpolation == "nearest") {
      return fail(Code::kUnsupportedForm, "antialias without interpolation");
    }
    axes.push_back(std::move(axis));
  }
  return axes;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_TRY(const std::vector<ResizeAxis> axes, axes_of(node));
  if (!std::isfinite(node.attributes.real("cubic_coeff"))) return fail(Code::kUnsupportedForm, "cubic_coeff");
  for (ResizeAxis axis : axes) {  // unknown modes
    axis.in = axis.out = 1;
    HTPIPE_CHECK_OK(make_taps(axis));
  }
  if (node.attributes.text("interpolation_mode") != "nearest") {
    HTPIPE_CHECK_OK(check_real(node, 0));
  }
  TensorType type = node.type(0);
  type.encoding.reset();
  const std::size_t first = is_nhwc(node.attributes) ? 1 : 2;
  for (std::size_t i = 0; i < axes.size(); ++i) type.shape[first + i] = axes[i].out;
  return std::vector<TensorType>{std::move(type)};
}

/// One axis of [outer, in, inner] resampled.
struct Step {
  Taps taps;
  std::int64_t outer = 1;
  std::int64_t in = 1;
  std::int64_t out = 1;
  std::int64_t inner = 1;

  [[nodiscard]] std::int64_t result_count() const { return outer * out * inner; }

  /// Calls body(position along the axis, offset of the source, offset of the result) for every result, shared out
  /// among the threads of a call; offsets in elements.
  template <typename Body>
  void for_each_result(const KernelCall& call, Body body) const {
    constexpr std::int64_t kGrain = 1 << 14;  // elements that are worth a hand-over to another thread
    for_parts(call, outer * out, kGrain / (inner + 1) + 1, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      for (std::int64_t i = begin; i < end; ++i)
        body(static_cast<std::size_t>(i % out), i / out * in * inner, i * inner);
    });
  }
  void blend(const KernelCall& call, const float* from, float* to) const {
    for_each_result(call, [&](std::size_t position, std::int64_t source_at, std::int64_t target_at) {
      float* target = to + target_at;
      for (std::size_t t = taps.begin[position]; t < taps.begin[position + 1]; ++t) {
        const float* source = from + source_at + taps.index[t] * inner;
        const float weight = taps.weight[t];
        if (t == taps.begin[position]) {
          for (std::int64_t i = 0; i < inner; ++i) target[i] = weight * source[i];
        } else {
          for (std::int64_t i = 0; i < inner; ++i) target[i] += weight * source[i];
        }
      }
    });
  }
  /// Nearest neighbours: elements of any type, `size` bytes each.
  void copy(const KernelCall& call, const std::byte* from, std::byte* to, std::size_t size) const {
    for_each_result(call, [&](std::size_t position, std::int64_t source_at, std::int64_t target_at) {
      const std::int64_t source = source_at + taps.index[position] * inner;
      std::memcpy(to + static_cast<std::size_t>(target_at) * size, from + static_cast<std::size_t>(source) * size,
                  static_cast<std::size_t>(inner) * size);
    });
  }
};

Result<std::vector<Step>> steps_of(const NodeView& node) {
  HTPIPE_TRY(const std::vector<ResizeAxis> axes, axes_of(node));
  Shape shape = node.type(0).shape;
  std::size_t at = is_nhwc(node.attributes) ? 1 : 2;
  std::vector<Step> steps;
  for (const ResizeAxis& axis : axes) {
    HTPIPE_TRY(Taps taps, make_taps(axis));
    Step step{std::move(taps), 1, axis.in, axis.out, 1};
    for (std::size_t i = 0; i < at; ++i) step.outer *= shape[i];
    for (std::size_t i = at + 1; i < shape.size(); ++i) step.inner *= shape[i];
    shape[at++] = axis.out;
    if (!step.taps.is_identity() || axis.in != axis.out) steps.push_back(std::move(step));
  }
  return steps;
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  const bool nearest = node.attributes.text("interpolation_mode") == "nearest";
  if (!nearest && node.type(0).dtype != DType::kF32)
    return fail(Code::kUnsupportedForm, "only floats are interpolated");
  HTPIPE_TRY(std::vector<Step> steps, steps_of(node));
  const std::size_t size = size_of(node.type(0).dtype);
  const std::size_t bytes = request.results[0]->size_bytes();
  std::size_t half = 0;  // of the scratch: results between two steps, in turn
  for (const Step& step : steps) half = std::max(half, static_cast<std::size_t>(step.result_count()) * size);
  Kernel kernel;
  kernel.scratch_bytes = steps.size() > 1 ? 2 * half : 0;
  kernel.run = [steps = std::move(steps), nearest, size, bytes, half](const KernelCall& call) {
    const auto* from = static_cast<const std::byte*>(call.operands[0]);
    if (bytes == 0) return;
    if (steps.empty()) std::memcpy(call.results[0], from, bytes);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      auto* to = i + 1 == steps.size() ? static_cast<std::byte*>(call.results[0]) : call.scratch + (i % 2) * half;
      if (nearest) {
        steps[i].copy(call, from, to, size);
      } else {
        steps[i].blend(call, reinterpret_cast<const float*>(from), reinterpret_cast<float*>(to));
      }
      from = to;
    }
  };
  return kernel;
}

/// The chip does not read nearest_mode: it cuts asymmetric coordinates and rounds others half up.
Status check_nearest(const std::vector<ResizeAxis>& axes, Code code) {
  for (const ResizeAxis& axis : axes) {
    ResizeAxis chips = axis;
    chips.nearest = axis.transformation == "asymmetric" ? "floor" : "round_prefer_ceil";
    HTPIPE_TRY(const Taps wanted, make_taps(axis));
    HTPIPE_TRY(const Taps got, make_taps(chips));
    if (wanted.index == got.index) continue;
    return fail(code, fmt::format("nearest_mode {} from {} to {}: the chip takes other neighbours", axis.nearest,
                                  axis.in, axis.out));
  }
  return {};
}

/// Refuses what the chip computes wrongly: cubic in 16 bits, both axes doubled, aligned corners. The values have nothing to
/// do with the input on v68 and v75 with 3, 4 and 8 channels, and on v73 for 6x8x4, the only size tried there. Other sizes
/// and other transformations that were tried follow the filter.
Status check_cubic(const NodeView& node, const std::vector<ResizeAxis>& axes, Code code) {
  const DType dtype = node.type(0).dtype;
  if (dtype != DType::kU16 && dtype != DType::kI16) return {};
  if (node.attributes.text("interpolation_mode") != "cubic") return {};
  if (node.attributes.text("transformation_mode") != "align_corners") return {};
  for (const ResizeAxis& axis : axes) {
    if (axis.out != 2 * axis.in) return {};
  }
  return fail(code, "the HTP answers garbage for a cubic Resize in 16 bits to twice the size with align_corners");
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const std::vector<ResizeAxis> axes, axes_of(node));
  if (!is_nhwc(node.attributes)) return fail(Code::kNoFixedRule, "channel-first data");
  const std::string& interpolation = node.attributes.text("interpolation_mode");
  if (interpolation == "nearest") {
    HTPIPE_CHECK_OK(check_same_encoding(node.type(0), *request.results[0]));
    HTPIPE_CHECK_OK(check_nearest(axes, Code::kNoFixedRule));
    return float_kernel(request);
  }
  if (node.attributes.flag("antialias") || node.attributes.flag("exclude_outside")) {
    return fail(Code::kNoFixedRule, "interpolation with antialias or exclude_outside");
  }
  HTPIPE_CHECK_OK(check_cubic(node, axes, Code::kNoFixedRule));
  return interpolation == "linear" ? fixed_linear_kernel(request, axes) : fixed_cubic_kernel(request, axes);
}

std::vector<ParamLowering> resize_params() {
  return {{"exclude_outside", "exclude_outside", ParamKind::kBool, {}, true},
          {"transformation_mode",
           "transformation_mode",
           ParamKind::kEnum,
           {{"half_pixel", 0}, {"pytorch_half_pixel", 1}, {"align_corners", 2}, {"asymmetric", 3}}},
          {"interpolation_mode", "interpolation_mode", ParamKind::kEnum, {{"nearest", 0}, {"linear", 1}, {"cubic", 2}}},
          {"nearest_mode",
           "nearest_mode",
           ParamKind::kEnum,
           {{"round_prefer_floor", 0}, {"round_prefer_ceil", 1}, {"floor", 2}, {"ceil", 3}},
           true},
          {"cubic_coeff", "cubic_coeff", ParamKind::kF32, {}, true}};
}

Status check_lowering(const NodeView& node) {
  const std::string& transformation = node.attributes.text("transformation_mode");
  if (transformation == "half_pixel_symmetric" || transformation == "tf_half_pixel_for_nn") {
    return fail(Code::kUnsupportedForm, fmt::format("QNN's Resize has no {}", transformation));
  }
  if (node.attributes.flag("antialias")) return fail(Code::kUnsupportedForm, "QNN's Resize has no antialias");
  HTPIPE_TRY(const std::vector<ResizeAxis> axes, axes_of(node));
  if (node.attributes.text("interpolation_mode") == "nearest") {
    HTPIPE_CHECK_OK(check_nearest(axes, Code::kUnsupportedForm));
  }
  HTPIPE_CHECK_OK(check_cubic(node, axes, Code::kUnsupportedForm));
  for (const ResizeAxis& axis : axes) {
    // QNN knows the sizes only, so that a scale must say the same.
    const double ratio = static_cast<double>(axis.out) / static_cast<double>(axis.in);
    if (axis.scale > 0.0F && std::abs(static_cast<double>(axis.scale) - ratio) > 1e-6 * ratio) {
      return fail(Code::kUnsupportedForm, fmt::format("QNN's Resize scales {} to {} by {}, the model by {}", axis.in,
                                                      axis.out, ratio, axis.scale));
    }
  }
  return {};
}

}  // namespace

const OpDef& resize() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Resize";
    def.doc = "Spatial axes resampled to other sizes.";
    def.operands = {{"input"}};
    def.attributes = {
        layout_attribute(),
        {"sizes", IntList{}, true, "output sizes of the spatial axes"},
        {"scales", std::vector<float>{}, false, "out / in of the spatial axes for coordinates; empty = by the sizes"},
        {"interpolation_mode", std::string("nearest"), false, "nearest, linear or cubic"},
        {"transformation_mode", std::string("half_pixel"), false,
         "half_pixel, pytorch_half_pixel, align_corners, asymmetric, half_pixel_symmetric or tf_half_pixel_for_nn"},
        {"nearest_mode", std::string("round_prefer_floor"), false,
         "round_prefer_floor, round_prefer_ceil, floor or ceil"},
        {"cubic_coeff", -0.75F, false, "cubic only: slope of the filter"},
        {"exclude_outside", false, false, "inputs outside weigh nothing instead of repeating the edge"},
        {"antialias", false, false, "when shrinking, the filter covers all inputs"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kSpatial;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.lowering = {"Resize", resize_params(), check_lowering};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
