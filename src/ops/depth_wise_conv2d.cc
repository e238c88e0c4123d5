// DepthWiseConv2d: every channel with its own filter, channel multiplier 1 or more.
// Weights [out,1,kh,kw] ("nchw") or [kh,kw,1,out] ("nhwc"). Source: QNN operator DepthWiseConv2d.
#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "kernels/fixed/conv_requant.h"
#include "kernels/fixed/elementwise.h"
#include "ops/activation.h"
#include "ops/depth_wise_form.h"
#include "ops/fixed_depthwise.h"
#include "ops/fixed_product.h"
#include "ops/lanes.h"
#include "ops/registry.h"
#include "ops/spatial.h"
#include "ops/window_call.h"

namespace htpipe::ops {
namespace {

using kernels::Window;

struct Shapes {
  Window window;
  std::int64_t out_channels = 1;
  std::int64_t multiplier = 1;
};

Result<Shapes> shapes_of(const NodeView& node) {
  const Shape& weight = node.type(1).shape;
  if (weight.size() != 4) return fail(Code::kShapeMismatch, "weights need rank 4");
  const bool nhwc = is_nhwc(node.attributes);
  Shapes shapes;
  HTPIPE_TRY(shapes.window, make_window(node, {weight[nhwc ? 0 : 2], weight[nhwc ? 1 : 3]}, false));
  shapes.out_channels = weight[nhwc ? 3 : 0];
  if (weight[nhwc ? 2 : 1] != 1 || shapes.window.channels < 1 || shapes.out_channels < 1 ||
      shapes.out_channels % shapes.window.channels != 0) {
    return fail(Code::kShapeMismatch,
                fmt::format("weights {} do not fit {}", to_string(weight), to_string(node.type(0).shape)));
  }
  if (node.has(2) && node.type(2).count() != shapes.out_channels) {
    return fail(Code::kShapeMismatch, "the bias has the wrong size");
  }
  shapes.multiplier = shapes.out_channels / shapes.window.channels;
  return shapes;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_CHECK_OK(check_products(node));
  HTPIPE_TRY(const Shapes shapes, shapes_of(node));
  HTPIPE_CHECK_OK(activation_range(node.attributes.text("activation")));
  return std::vector<TensorType>{window_result(node, shapes.window, shapes.out_channels)};
}

/// Visits the cells of every output of the lines [begin, end) of all images: cell(in_index, weight_index);
/// done(out_index, channel) ends it.
template <typename Start, typename Cell, typename Done>
void for_each_output(const Shapes& shapes, std::int64_t begin, std::int64_t end, Start start, Cell cell, Done done) {
  const Window& w = shapes.window;
  std::int64_t out_index = begin * w.out_w * shapes.out_channels;
  for (std::int64_t line = begin; line < end; ++line) {
    const std::int64_t image = line / w.out_h;
    for (std::int64_t column = 0; column < w.out_w; ++column) {
      for (std::int64_t channel = 0; channel < shapes.out_channels; ++channel, ++out_index) {
        start();
        for (std::int64_t kh = 0; kh < w.kernel_h; ++kh) {
          for (std::int64_t kw = 0; kw < w.kernel_w; ++kw) {
            const std::int64_t y = w.row_of(line % w.out_h, kh);
            const std::int64_t x = w.column_of(column, kw);
            const std::int64_t tap = (kh * w.kernel_w + kw) * shapes.out_channels + channel;
            const bool inside = w.inside(y, x);
            cell(inside ? ((image * w.in_h + y) * w.in_w + x) * w.channels + channel / shapes.multiplier : -1, tap);
          }
        }
        done(out_index, channel);
      }
    }
  }
}

/// [kh,kw,1,out] of [out,1,kh,kw].
void to_channel_last(const float* from, std::int64_t channels, std::int64_t cells, float* to) {
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t cell = 0; cell < cells; ++cell) to[cell * channels + c] = *from++;
  }
}

/// Several outputs of each channel: as many products of one input.
void run_multiplied(const Shapes& shapes, ActivationRange range, const float* taps, const float* bias,
                    const KernelCall& call) {
  const float* in = call.in<float>(0);
  float* out = call.out<float>(0);
  const std::int64_t channels = shapes.out_channels;
  kernels::for_each_pixel(
      shapes.window, [&](std::int64_t pixel) { std::fill_n(out + pixel * channels, channels, 0.0F); },
      [&](std::int64_t pixel, std::int64_t in_pixel, std::int64_t tap) {
        const float* source = in + in_pixel * shapes.window.channels;
        const float* factors = taps + tap * channels;
        float* target = out + pixel * channels;
        for (std::int64_t c = 0; c < shapes.window.channels; ++c) {
          for (std::int64_t i = 0; i < shapes.multiplier; ++i) *target++ += source[c] * *factors++;
        }
      },
      [&](std::int64_t pixel, std::int64_t) {
        float* target = out + pixel * channels;
        for (std::int64_t c = 0; c < channels && bias != nullptr; ++c) target[c] += bias[c];
      });
  apply_activation(range, out, shapes.window.n * shapes.window.out_pixels() * channels);
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_CHECK_OK(require_f32(node));
  HTPIPE_TRY(const Shapes shapes, shapes_of(node));
  HTPIPE_TRY(const ActivationRange range, activation_range(node.attributes.text("activation")));
  Tensor constant;
  if (node.constants[1] != nullptr) {
    HTPIPE_TRY(constant, nhwc_weights(node, depth_wise_conv2d().weight_to_nhwc));
  }
  const bool has_bias = node.has(2);
  const bool turns = constant.empty() && !is_nhwc(node.attributes);
  Kernel kernel;
  if (turns) {
    kernel.scratch_bytes = static_cast<std::size_t>(shapes.window.cells() * shapes.out_channels) * sizeof(float);
  }
  kernel.run = [shapes, range, constant, has_bias, turns](const KernelCall& call) {
    const float* taps = constant.empty() ? call.in<float>(1) : constant.data<float>().data();
    if (turns) {
      auto* turned = reinterpret_cast<float*>(call.scratch);
      to_channel_last(taps, shapes.out_channels, shapes.window.cells(), turned);
      taps = turned;
    }
    const float* bias = has_bias ? call.in<float>(2) : nullptr;
    if (shapes.multiplier > 1) return run_multiplied(shapes, range, taps, bias, call);
    run_window(shapes.window, kernels::WindowSum::kProducts, taps, {bias, range.low, range.high}, call);
  };
  return with_layout(node, shapes.window.out_pixels(), shapes.out_channels, std::move(kernel));
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const Shapes shapes, shapes_of(node));
  if (!is_nhwc(node.attributes)) return fail(Code::kNoFixedRule, "only channel-last data has an integer rule");
  HTPIPE_CHECK_OK(check_activation_encoding(node.attributes.text("activation"), *request.results[0]));
  HTPIPE_TRY(const Tensor weight, nhwc_weights(node, depth_wise_conv2d().weight_to_nhwc));
  HTPIPE_TRY(const kernels::ConvForm form,
             depth_wise_form(shapes.window, shapes.multiplier, node.type(0), weight.type(), request.htp_version));
  const auto excess = form == kernels::ConvForm::kStandard ? kernels::Excess::kShrink : kernels::Excess::kKeep;
  HTPIPE_TRY(const auto columns,
             kernels::column_weights(weight.type(), weight.bytes().data(), {shapes.out_channels, 1}, excess));
  HTPIPE_TRY(const kernels::Grid grid, kernels::Grid::of(node.type(0)));
  HTPIPE_TRY(const std::vector<std::int32_t> bias, stored_bias(node, 2));
  std::vector<std::int64_t> sums(static_cast<std::size_t>(shapes.out_channels), 0);
  for (std::size_t i = 0; i < columns.values.size(); ++i) sums[i % sums.size()] += columns.values[i];
  const float bias_scale = node.has(2) && node.type(2).encoding ? node.type(2).encoding->scale() : 1.0F;
  HTPIPE_TRY(const auto requant,
             kernels::ConvRequant::make({node.type(0), columns.scales, *request.results[0], bias, sums, bias_scale,
                                         shapes.out_channels, form, request.htp_version}));
  const bool bytes =
      std::all_of(columns.values.begin(), columns.values.end(), [](int w) { return w >= -128 && w <= 127; });
  if (shapes.multiplier == 1 && bytes && !columns.scales.deep && shapes.window.cells() <= FixedDepthwise::kMostTaps) {
    const auto depthwise =
        std::make_shared<FixedDepthwise>(shapes.window, grid, node.type(0).dtype, columns.values, requant);
    Kernel kernel;
    kernel.scratch_bytes = depthwise->scratch_bytes();
    kernel.lane_scratch_bytes = depthwise->lane_scratch_bytes();
    kernel.run = [depthwise](const KernelCall& call) { depthwise->run(call); };
    return kernel;
  }
  const DType in_dtype = node.type(0).dtype;
  const DType out_dtype = request.results[0]->dtype;
  const std::int64_t out_offset = out_dtype == DType::kI8 ? 128 : out_dtype == DType::kI16 ? 32768 : 0;
  const std::int64_t centre = requant.uncentred() ? 0 : grid.zero;
  const std::int64_t padding = grid.zero - centre;
  Kernel kernel;
  kernel.run = [=, taps = columns.values](const KernelCall& call) {
    const std::int16_t* tap_data = taps.data();
    for_parts(call, shapes.window.n * shapes.window.out_h, 1, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      std::int64_t sum = 0;
      for_each_output(
          shapes, begin, end, [&] { sum = 0; },
          [&](std::int64_t in_index, std::int64_t tap) {
            const std::int64_t x =
                in_index >= 0 ? kernels::load(call.operands[0], in_dtype, in_index) - centre : padding;
            sum += x * tap_data[tap];
          },
          [&](std::int64_t out_index, std::int64_t channel) {
            const std::int64_t q = requant.apply(sum, static_cast<std::size_t>(channel));
            kernels::store(call.results[0], out_dtype, out_index, q + out_offset);
          });
    });
  };
  return kernel;
}

}  // namespace

const OpDef& depth_wise_conv2d() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "DepthWiseConv2d";
    def.doc = "Depthwise 2-D convolution with optional bias and fused activation.";
    def.operands = {{"input"}, {"weight", Role::kWeight}, {"bias", Role::kBias, true}};
    def.attributes = {layout_attribute(), stride_attribute(), pad_attribute(), dilation_attribute(),
                      activation_attribute()};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.macs = [](const NodeView& node, std::span<const TensorType* const> results) {
      const Shape& weight = node.type(1).shape;
      const bool nhwc = is_nhwc(node.attributes);
      return results[0]->count() * weight[nhwc ? 0 : 2] * weight[nhwc ? 1 : 3];
    };
    def.layout = Layout::kSpatial;
    def.weight_channel_axis = 3;
    def.weight_to_nhwc = {2, 3, 1, 0};
    def.lowering = {"DepthWiseConv2d",
                    {{"stride", "stride", ParamKind::kU32List},
                     {"pad_amount", "pad_amount", ParamKind::kU32Pairs},
                     {"dilation", "dilation", ParamKind::kU32List}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
