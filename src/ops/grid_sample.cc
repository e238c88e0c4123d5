// GridSample: the input read at positions that a second operand gives, from -1 to 1 over the image, x before y before z.
// Coordinates are computed in float32 as PyTorch computes them: nearest neighbours depend on it.
// Source: QNN operator GridSample (bilinear and nearest), PyTorch grid_sample, ONNX GridSample.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "kernels/fixed/elementwise.h"
#include "ops/normalise.h"
#include "ops/registry.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

enum class Padding : std::uint8_t { kZeros, kBorder, kReflection };
enum class Mode : std::uint8_t { kBilinear, kNearest, kBicubic };

struct Form {
  ChannelSizes sizes;
  std::array<std::int64_t, 3> in = {1, 1, 1};  ///< depth, height, width; depth 1 for images
  std::size_t axes = 2;
  std::int64_t out_pixels = 1;
  bool align_corners = false;
  Mode mode = Mode::kBilinear;
  Padding padding = Padding::kZeros;
};

Result<Form> form_of(const NodeView& node) {
  Form form;
  HTPIPE_TRY(form.sizes, channel_sizes(node, 4));
  const Shape& shape = node.type(0).shape;
  const Shape& grid = node.type(1).shape;
  form.axes = shape.size() - 2;
  if (form.axes > 3 || grid.size() != shape.size() || grid[0] != shape[0] ||
      grid.back() != static_cast<std::int64_t>(form.axes)) {
    return fail(Code::kShapeMismatch, fmt::format("grid {} for {}", to_string(grid), to_string(shape)));
  }
  for (std::size_t i = 0; i < form.axes; ++i) {
    form.in[3 - form.axes + i] = shape[i + (form.sizes.last ? 1 : 2)];
    form.out_pixels *= grid[1 + i];
  }
  if (form.sizes.pixels == 0 && form.out_pixels > 0) return fail(Code::kShapeMismatch, "the image is empty");
  const std::string& mode = node.attributes.text("mode");
  const std::string& padding = node.attributes.text("padding_mode");
  if (mode != "bilinear" && mode != "nearest" && (mode != "bicubic" || form.axes != 2)) {
    return fail(Code::kUnsupportedForm, fmt::format("no mode \"{}\" in {} dimensions", mode, form.axes));
  }
  if (padding != "zeros" && padding != "border" && padding != "reflection") {
    return fail(Code::kUnsupportedForm, fmt::format("no padding_mode \"{}\"", padding));
  }
  form.mode = mode == "bilinear" ? Mode::kBilinear : mode == "nearest" ? Mode::kNearest : Mode::kBicubic;
  form.padding = padding == "zeros" ? Padding::kZeros : padding == "border" ? Padding::kBorder : Padding::kReflection;
  form.align_corners = node.attributes.flag("align_corners");
  return form;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_CHECK_OK(check_real(node, 0));
  HTPIPE_CHECK_OK(check_real(node, 1));
  HTPIPE_TRY(const Form form, form_of(node));
  TensorType type = node.type(0);
  type.encoding.reset();
  for (std::size_t i = 0; i < form.axes; ++i) type.shape[i + (form.sizes.last ? 1 : 2)] = node.type(1).shape[1 + i];
  return std::vector<TensorType>{std::move(type)};
}

/// `x` mirrored into [low / 2, high / 2].
float reflect(float x, float low, float high) {
  if (low == high) return 0.0F;
  const float start = low / 2;
  const float span = (high - low) / 2;
  const float distance = std::fabs(x - start);
  const float rest = std::fmod(distance, span);
  const bool odd = std::fmod(std::floor(distance / span), 2.0F) != 0.0F;
  return odd ? span - rest + start : rest + start;
}

float pad(const Form& form, float x, std::int64_t size) {
  const auto extent = static_cast<float>(size);
  if (form.padding == Padding::kReflection) {
    x = form.align_corners ? reflect(x, 0.0F, 2 * (extent - 1)) : reflect(x, -1.0F, 2 * extent - 1);
  }
  if (form.padding == Padding::kZeros) return x;
  // Not a number lands at 0.
  return x > 0.0F ? std::min(x, extent - 1) : 0.0F;
}

/// Where one axis is read: up to four positions with weights; a position outside is left out.
struct Taps {
  std::array<std::int64_t, 4> index = {};
  std::array<double, 4> weight = {};
  std::size_t count = 0;

  void add(float at, std::int64_t size, double share) {
    if (!(at >= 0.0F && at < static_cast<float>(size))) return;
    index[count] = static_cast<std::int64_t>(at);
    weight[count++] = share;
  }
};

/// Keys' cubic filter with the slope -0.75.
double cubic(double x) {
  constexpr double a = -0.75;
  x = std::abs(x);
  return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

/// `steps`: a bilinear share is cut to whole parts of 1 / steps; 0 = it is not.
Taps taps_of(const Form& form, float position, std::int64_t size, double steps = 0) {
  const auto extent = static_cast<float>(size);
  float x = form.align_corners ? (position + 1) / 2 * (extent - 1) : ((position + 1) * extent - 1) / 2;
  Taps taps;
  if (form.mode == Mode::kBicubic) {
    const float first = std::floor(x);
    for (int i = -1; i < 3; ++i) {
      const float at = first + static_cast<float>(i);
      taps.add(pad(form, at, size), size, cubic(static_cast<double>(x) - static_cast<double>(at)));
    }
    return taps;
  }
  x = pad(form, x, size);
  if (form.mode == Mode::kNearest) {
    taps.add(std::nearbyint(x), size, 1);
    return taps;
  }
  const float first = std::floor(x);
  double share = static_cast<double>(x) - static_cast<double>(first);
  if (steps > 0) share = std::floor(share * steps) / steps;
  taps.add(first, size, 1 - share);
  taps.add(first + 1, size, share);
  return taps;
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const Form form, form_of(request.node));
  Kernel kernel;
  kernel.run = [form](const KernelCall& call) {
    const std::int64_t channels = form.sizes.channels;
    const bool last = form.sizes.last;
    for (std::int64_t pixel = 0; pixel < form.sizes.batch * form.out_pixels; ++pixel) {
      const std::int64_t image = pixel / form.out_pixels;
      const float* position = call.in<float>(1) + pixel * static_cast<std::int64_t>(form.axes);
      std::array<Taps, 3> taps;  // depth, height, width
      taps[0].add(0.0F, 1, 1);
      for (std::size_t i = 0; i < form.axes; ++i) taps[2 - i] = taps_of(form, position[i], form.in[2 - i]);
      const float* in = call.in<float>(0) + image * channels * form.sizes.pixels;
      float* out = call.out<float>(0) + image * channels * form.out_pixels;
      for (std::int64_t c = 0; c < channels; ++c) {
        double sum = 0;
        for (std::size_t z = 0; z < taps[0].count; ++z) {
          for (std::size_t y = 0; y < taps[1].count; ++y) {
            const std::int64_t row = (taps[0].index[z] * form.in[1] + taps[1].index[y]) * form.in[2];
            const double share = taps[0].weight[z] * taps[1].weight[y];
            for (std::size_t x = 0; x < taps[2].count; ++x) {
              const std::int64_t at = row + taps[2].index[x];
              sum += share * taps[2].weight[x] *
                     static_cast<double>(in[last ? at * channels + c : c * form.sizes.pixels + at]);
            }
          }
        }
        const std::int64_t to = pixel % form.out_pixels;
        out[last ? to * channels + c : c * form.out_pixels + to] = static_cast<float>(sum);
      }
    }
  };
  return kernel;
}

/// The chip cuts shares along the width to 1/256 in 8 bits, and rounds each row's value in 16 bits.
struct FixedForm {
  Form form;
  DType data = DType::kU8, positions = DType::kU8, result = DType::kU8;
  kernels::Grid from, grid, to;
  kernels::Unary convert;

  /// Value of channel `c` of the image that begins at element `image`, in steps of the input, half up.
  [[nodiscard]] std::int64_t sample(const void* in, std::int64_t image, std::int64_t c, const Taps& rows,
                                    const Taps& columns) const {
    double sum = 0;
    for (std::size_t y = 0; y < rows.count; ++y) {
      double row = 0;
      for (std::size_t x = 0; x < columns.count; ++x) {
        const std::int64_t at = image + (rows.index[y] * form.in[2] + columns.index[x]) * form.sizes.channels + c;
        row += columns.weight[x] * static_cast<double>(kernels::load(in, data, at) - from.zero);
      }
      sum += rows.weight[y] * (from.wide() ? std::floor(row + 0.5) : row);
    }
    return static_cast<std::int64_t>(std::floor(sum + 0.5)) + from.zero;
  }

  void run(const KernelCall& call) const {
    const std::int64_t channels = form.sizes.channels;
    const double steps = from.wide() ? 0 : 256;
    for (std::int64_t pixel = 0; pixel < form.sizes.batch * form.out_pixels; ++pixel) {
      const auto position = [&](std::int64_t axis) {
        return kernels::dequantize(kernels::load(call.operands[1], positions, 2 * pixel + axis), grid);
      };
      const Taps columns = taps_of(form, position(0), form.in[2], steps);
      const Taps rows = taps_of(form, position(1), form.in[1]);
      const std::int64_t image = pixel / form.out_pixels * form.sizes.pixels * channels;
      for (std::int64_t c = 0; c < channels; ++c) {
        const std::int64_t value = sample(call.operands[0], image, c, rows, columns);
        kernels::store(call.results[0], result, pixel * channels + c, convert(value));
      }
    }
  }
};

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  FixedForm fixed;
  HTPIPE_TRY(fixed.form, form_of(node));
  if (!fixed.form.sizes.last) return fail(Code::kNoFixedRule, "only channel-last data has an integer rule");
  if (fixed.form.axes != 2) return fail(Code::kNoFixedRule, "samples of volumes have no integer rule");
  if (fixed.form.mode == Mode::kBicubic) return fail(Code::kNoFixedRule, "the chip has no bicubic samples");
  HTPIPE_TRY(fixed.from, kernels::Grid::of(node.type(0)));
  HTPIPE_TRY(fixed.grid, kernels::Grid::of(node.type(1)));
  HTPIPE_TRY(fixed.to, kernels::Grid::of(*request.results[0]));
  if (fixed.from.wide() != fixed.grid.wide() || fixed.from.wide() != fixed.to.wide()) {
    return fail(Code::kNoFixedRule, "GridSample of values of 8 and 16 bits");
  }
  fixed.data = node.type(0).dtype;
  fixed.positions = node.type(1).dtype;
  fixed.result = request.results[0]->dtype;
  fixed.convert = fixed.from == fixed.to ? kernels::Unary([](std::int64_t q) { return q; })
                                         : kernels::convert(fixed.from, fixed.to);
  Kernel kernel;
  kernel.run = [fixed](const KernelCall& call) { fixed.run(call); };
  return kernel;
}

Status check_lowering(const NodeView& node) {
  if (node.attributes.text("mode") != "bicubic") return {};
  return fail(Code::kUnsupportedForm, "QNN's GridSample has no bicubic mode");
}

}  // namespace

const OpDef& grid_sample() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "GridSample";
    def.doc = "The input read at the positions of a grid.";
    def.operands = {{"input"}, {"grid"}};
    def.attributes = {layout_attribute(),
                      {"align_corners", false, false, "-1 and 1 are the centres of the outer pixels, not their edges"},
                      {"mode", std::string("bilinear"), false, "bilinear, nearest or bicubic"},
                      {"padding_mode", std::string("zeros"), false, "zeros, border or reflection"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kSpatial;
    def.lowering = {
        "GridSample",
        {{"align_corners", "align_corners", ParamKind::kBool},
         {"mode", "mode", ParamKind::kEnum, {{"bilinear", 0}, {"nearest", 1}}},
         {"padding_mode", "padding_mode", ParamKind::kEnum, {{"zeros", 0}, {"border", 1}, {"reflection", 2}}}},
        check_lowering};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
