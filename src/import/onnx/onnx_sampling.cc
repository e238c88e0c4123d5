// Operators that read an image at computed positions.
#include <fmt/core.h>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// Positions from -1 to 1 along an axis of `size` pixels: their centres, or from the first to the last one.
std::vector<float> positions(std::int64_t size, bool align_corners) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<double>(i);
    const auto count = static_cast<double>(size);
    double value = (2.0 * at + 1.0) / count - 1.0;
    if (align_corners) value = size > 1 ? 2.0 * at / (count - 1.0) - 1.0 : 0.0;
    values.push_back(static_cast<float>(value));
  }
  return values;
}

}  // namespace

Result<Values> grid_sample(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * grid, call.input(1));
  HTPIPE_TRY(const std::int64_t align, call.integer("align_corners", 0));
  HTPIPE_TRY(std::string mode, call.text("mode", "linear"));
  HTPIPE_TRY(const std::string padding, call.text("padding_mode", "zeros"));
  // Opset 20 renamed them.
  if (mode == "linear") mode = "bilinear";
  if (mode == "cubic") mode = "bicubic";
  return one(call.add("GridSample", {{"align_corners", align != 0}, {"mode", mode}, {"padding_mode", padding}},
                      {input, grid}));
}

Result<Values> affine_grid(Call& call) {
  HTPIPE_TRY(Value * theta, call.input(0));
  HTPIPE_TRY(const IntList size, call.integers_input(1));
  HTPIPE_TRY(const std::int64_t align, call.integer("align_corners", 0));
  const auto axes = static_cast<std::int64_t>(size.size()) - 2;
  if ((axes != 2 && axes != 3) || theta->type.shape != Shape{size[0], axes, axes + 1}) {
    return fail(Code::kShapeMismatch,
                fmt::format("AffineGrid of {} to {}", to_string(theta->type.shape), to_string(size)));
  }
  std::int64_t points = 1;
  std::vector<std::vector<float>> along;
  for (std::size_t i = 2; i < size.size(); ++i) {
    if (size[i] < 1 || size[i] > (1 << 16)) return fail(Code::kShapeMismatch, "AffineGrid of no or too many pixels");
    along.push_back(positions(size[i], align != 0));
    points *= size[i];
  }
  if (points > (1 << 26)) return fail(Code::kUnsupportedForm, "AffineGrid of too many pixels");
  // x, y, (z,) 1 of every pixel.
  std::vector<float> base;
  for (std::int64_t point = 0; point < points; ++point) {
    std::int64_t rest = point;
    for (std::size_t i = along.size(); i-- > 0;) {
      const auto length = static_cast<std::int64_t>(along[i].size());
      base.push_back(along[i][static_cast<std::size_t>(rest % length)]);
      rest /= length;
    }
    base.push_back(1.0F);
  }
  HTPIPE_TRY(Value * pixels,
             call.cast(call.floats("pixels", {1, points, axes + 1}, base), theta->type.dtype, "pixels"));
  HTPIPE_TRY(Value * moved, mat_mul(call, pixels, theta, false, true, "moved"));
  Shape shape = {size[0]};
  shape.insert(shape.end(), size.begin() + 2, size.end());
  shape.push_back(axes);
  return one(call.reshape(moved, shape));
}

Result<Values> roi_align(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * rois, call.input(1));
  HTPIPE_TRY(Value * images, call.input(2));
  HTPIPE_TRY(const std::int64_t height, call.integer("output_height", 1));
  HTPIPE_TRY(const std::int64_t width, call.integer("output_width", 1));
  HTPIPE_TRY(const std::int64_t ratio, call.integer("sampling_ratio", 0));
  HTPIPE_TRY(const float scale, call.real("spatial_scale", 1.0F));
  HTPIPE_TRY(const std::string mode, call.text("mode", "avg"));
  // Before opset 16 pixels had their centre at whole numbers.
  const char* const fallback = call.opset() < 16 ? "output_half_pixel" : "half_pixel";
  HTPIPE_TRY(const std::string centres, call.text("coordinate_transformation_mode", fallback));
  if (centres != "half_pixel" && centres != "output_half_pixel") return fail(Code::kUnsupportedForm, centres);
  return one(call.add("RoiAlign",
                      {{"output_size", IntList{height, width}},
                       {"spatial_scale", scale},
                       {"sampling_ratio", ratio},
                       {"aligned", centres == "half_pixel"},
                       {"mode", mode}},
                      {input, rois, images}));
}

Result<Values> non_max_suppression(Call& /*call*/) {
  return fail(Code::kDataDependent, "how many boxes NonMaxSuppression keeps is known only when the model runs");
}

}  // namespace htpipe::onnx_import::map
