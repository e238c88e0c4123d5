// RoiAlign: boxes of an image resampled to one size. Operands: input, rois [count, 4] as x1 y1 x2 y2, the image of each
// box [count]; a box of an image that is not there gives zeros. Source: ONNX RoiAlign, torchvision roi_align; QNN's
// RoiAlign has other parameters, so there is no lowering yet.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "ops/normalise.h"
#include "ops/registry.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

struct Form {
  ChannelSizes sizes;
  std::int64_t height = 1;
  std::int64_t width = 1;
  std::int64_t out_height = 1;
  std::int64_t out_width = 1;
  std::int64_t rois = 0;
  std::int64_t sampling_ratio = 0;
  float spatial_scale = 1;
  bool aligned = false;
  bool maximum = false;
};

Result<Form> form_of(const NodeView& node) {
  Form form;
  const Shape& shape = node.type(0).shape;
  if (shape.size() != 4) return fail(Code::kShapeMismatch, fmt::format("needs rank 4, got {}", to_string(shape)));
  HTPIPE_TRY(form.sizes, channel_sizes(node, 4));
  form.height = shape[form.sizes.last ? 1 : 2];
  form.width = shape[form.sizes.last ? 2 : 3];
  const Shape& rois = node.type(1).shape;
  if (rois.size() != 2 || rois[1] != 4 || node.type(2).shape != Shape{rois[0]}) {
    return fail(Code::kShapeMismatch,
                fmt::format("rois {} with images {}", to_string(rois), to_string(node.type(2).shape)));
  }
  form.rois = rois[0];
  if (form.sizes.pixels == 0) return fail(Code::kShapeMismatch, "the image is empty");
  const auto& size = node.attributes.integers("output_size");
  form.sampling_ratio = node.attributes.integer("sampling_ratio");
  form.spatial_scale = node.attributes.real("spatial_scale");
  const std::string& mode = node.attributes.text("mode");
  if (size.size() != 2 || size[0] < 1 || size[1] < 1 || size[0] > (1 << 16) || size[1] > (1 << 16) ||
      form.sampling_ratio > (1 << 10) || !std::isfinite(form.spatial_scale) || (mode != "avg" && mode != "max")) {
    return fail(Code::kUnsupportedForm, fmt::format("output_size {}, sampling_ratio {}, spatial_scale {}, mode {}",
                                                    to_string(size), form.sampling_ratio, form.spatial_scale, mode));
  }
  form.out_height = size[0];
  form.out_width = size[1];
  form.aligned = node.attributes.flag("aligned");
  form.maximum = mode == "max";
  return form;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_CHECK_OK(check_real(node, 0));
  HTPIPE_CHECK_OK(check_real(node, 1));
  if (!is_integer(node.type(2).dtype)) return fail(Code::kDtypeMismatch, "the images of the boxes are no integers");
  HTPIPE_TRY(const Form form, form_of(node));
  TensorType type = {node.type(0).dtype, {form.rois, form.sizes.channels, form.out_height, form.out_width}, {}};
  if (form.sizes.last) type.shape = {form.rois, form.out_height, form.out_width, form.sizes.channels};
  return std::vector<TensorType>{std::move(type)};
}

/// One axis of a box: the samples of output position `out` that fall onto the image.
struct Axis {
  float start = 0;
  float bin = 0;
  std::int64_t samples = 0;  ///< of each bin, also those outside the image
  std::int64_t size = 1;

  Axis(float low, float high, std::int64_t out, std::int64_t in, const Form& form) : size(in) {
    const float offset = form.aligned ? 0.5F : 0.0F;
    start = low * form.spatial_scale - offset;
    float extent = high * form.spatial_scale - offset - start;
    if (!form.aligned) extent = std::max(extent, 1.0F);
    bin = extent / static_cast<float>(out);
    const float count = std::ceil(bin);
    samples = form.sampling_ratio;
    // A box that is no number, or wider than any image, has no samples.
    if (samples <= 0) samples = count > 0.0F && count < 1e9F ? static_cast<std::int64_t>(count) : 0;
    if (!(std::isfinite(start) && std::isfinite(bin))) samples = 0;
  }
  [[nodiscard]] float position(std::int64_t out, std::int64_t sample) const {
    return start + static_cast<float>(out) * bin +
           (static_cast<float>(sample) + 0.5F) * bin / static_cast<float>(samples);
  }
  /// The samples [first, last) near the image; the others lie outside it.
  [[nodiscard]] std::array<std::int64_t, 2> near(std::int64_t out) const {
    const double step = static_cast<double>(bin) / static_cast<double>(samples);
    if (samples <= 4096 || !(step > 0)) return {0, std::min<std::int64_t>(samples, 4096)};
    const double origin = static_cast<double>(start) + static_cast<double>(out) * static_cast<double>(bin);
    const auto limit = static_cast<double>(samples);
    const double first = std::clamp((-3 - origin) / step - 2, 0.0, limit);
    const double last = std::clamp((static_cast<double>(size) + 2 - origin) / step + 2, 0.0, limit);
    return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(last)};
  }
};

/// Two neighbours along one axis; `inside` is false for a position off the image.
struct Pair {
  std::int64_t low = 0;
  std::int64_t high = 0;
  float share = 0;  ///< of `high`
  bool inside = false;

  Pair(float x, std::int64_t size) {
    inside = x >= -1.0F && x <= static_cast<float>(size);
    if (!inside) return;
    x = std::max(x, 0.0F);
    low = static_cast<std::int64_t>(x);
    if (low >= size - 1) {
      low = high = size - 1;
    } else {
      high = low + 1;
      share = x - static_cast<float>(low);
    }
  }
};

/// The value of one output element; image(y, x) reads the channel.
template <typename Image>
float pooled(const Form& form, const Axis& rows, const Axis& columns, std::int64_t out_y, std::int64_t out_x,
             Image image) {
  const auto [first_y, last_y] = rows.near(out_y);
  const auto [first_x, last_x] = columns.near(out_x);
  double sum = 0;
  double largest = -INFINITY;
  std::int64_t seen = 0;
  for (std::int64_t i = first_y; i < last_y; ++i) {
    const Pair y(rows.position(out_y, i), form.height);
    for (std::int64_t j = first_x; j < last_x; ++j) {
      const Pair x(columns.position(out_x, j), form.width);
      if (!y.inside || !x.inside) continue;
      ++seen;
      const auto ly = static_cast<double>(y.share);
      const auto lx = static_cast<double>(x.share);
      const double corners[] = {(1 - ly) * (1 - lx) * image(y.low, x.low), (1 - ly) * lx * image(y.low, x.high),
                                ly * (1 - lx) * image(y.high, x.low), ly * lx * image(y.high, x.high)};
      sum += corners[0] + corners[1] + corners[2] + corners[3];
      // ONNX's maximum is that of the weighted corners, not of the interpolated values.
      for (const double corner : corners) largest = std::max(largest, corner);
    }
  }
  const std::int64_t all = rows.samples * columns.samples;
  if (!form.maximum) return static_cast<float>(sum / static_cast<double>(std::max<std::int64_t>(all, 1)));
  if (seen < all || all == 0) largest = std::max(largest, 0.0);  // samples outside count as 0
  return static_cast<float>(largest);
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const Form form, form_of(request.node));
  if (request.node.type(2).dtype != DType::kI64) return fail(Code::kUnsupportedForm, "images are not i64");
  Kernel kernel;
  kernel.run = [form](const KernelCall& call) {
    const std::int64_t channels = form.sizes.channels;
    for (std::int64_t roi = 0; roi < form.rois; ++roi) {
      const float* box = call.in<float>(1) + roi * 4;
      const std::int64_t n = call.in<std::int64_t>(2)[roi];
      const Axis rows(box[1], box[3], form.out_height, form.height, form);
      const Axis columns(box[0], box[2], form.out_width, form.width, form);
      for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t y = 0; y < form.out_height; ++y) {
          for (std::int64_t x = 0; x < form.out_width; ++x) {
            const auto image = [&](std::int64_t row, std::int64_t column) {
              const std::int64_t pixel = row * form.width + column;
              const std::int64_t base = n * channels * form.sizes.pixels;
              const std::int64_t at = form.sizes.last ? pixel * channels + c : c * form.sizes.pixels + pixel;
              return static_cast<double>(call.in<float>(0)[base + at]);
            };
            const std::int64_t pixel = y * form.out_width + x;
            const std::int64_t out_pixels = form.out_height * form.out_width;
            const std::int64_t at = form.sizes.last ? pixel * channels + c : c * out_pixels + pixel;
            call.out<float>(0)[roi * channels * out_pixels + at] =
                n >= 0 && n < form.sizes.batch ? pooled(form, rows, columns, y, x, image) : 0.0F;
          }
        }
      }
    }
  };
  return kernel;
}

}  // namespace

const OpDef& roi_align() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "RoiAlign";
    def.doc = "Boxes of an image resampled to one size.";
    def.operands = {{"input"}, {"rois"}, {"images"}};
    def.attributes = {layout_attribute(),
                      {"output_size", std::vector<std::int64_t>{1, 1}, true, "[height, width]"},
                      {"spatial_scale", 1.0F, false, "from the coordinates of boxes to pixels"},
                      {"sampling_ratio", std::int64_t{0}, false, "samples per bin and axis; 0 = as many as pixels"},
                      {"aligned", true, false, "pixels have their centre at .5 (ONNX half_pixel)"},
                      {"mode", std::string("avg"), false, "avg or max of the samples of a bin"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.layout = Layout::kSpatial;
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
