// L2Pool2d: square root of the mean of squares over a 2-D window; cells outside the image do not count.
// Source: QNN operator L2Pool2d (no rounding up, no dilation).
#include <algorithm>
#include <cmath>

#include "ops/pool.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<kernels::Window> window_of(const NodeView& node) {
  return make_window(node, node.attributes.integers("filter_size"), false);
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  if (node.attributes.integers("filter_size").size() != 2) {
    return fail(Code::kUnsupportedForm, "filter_size needs two numbers");
  }
  HTPIPE_TRY(const kernels::Window window, window_of(node));
  return std::vector<TensorType>{window_result(node, window, window.channels)};
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  HTPIPE_CHECK_OK(require_f32(request.node));
  HTPIPE_TRY(const kernels::Window window, window_of(request.node));
  Kernel kernel;
  kernel.run = [window](const KernelCall& call) {
    const float* in = call.in<float>(0);
    float* out = call.out<float>(0);
    const std::int64_t channels = window.channels;
    kernels::for_each_pixel(
        window, [&](std::int64_t pixel) { std::fill_n(out + pixel * channels, channels, 0.0F); },
        [&](std::int64_t pixel, std::int64_t in_pixel, std::int64_t) {
          const float* source = in + in_pixel * channels;
          for (std::int64_t c = 0; c < channels; ++c) out[pixel * channels + c] += source[c] * source[c];
        },
        [&](std::int64_t pixel, std::int64_t cells) {
          float* target = out + pixel * channels;
          for (std::int64_t c = 0; c < channels; ++c) target[c] = std::sqrt(target[c] / static_cast<float>(cells));
        });
  };
  return with_layout(request.node, window.out_pixels(), window.channels, std::move(kernel));
}

}  // namespace

const OpDef& l2_pool2d() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "L2Pool2d";
    def.doc = "Square root of the mean of squares over a 2-D window.";
    def.operands = {{"input"}};
    def.attributes = {layout_attribute(),
                      stride_attribute(),
                      pad_attribute(),
                      {"filter_size", std::vector<std::int64_t>{1, 1}, true, "[height, width]"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.layout = Layout::kSpatial;
    def.lowering = {"L2Pool2d",
                    {{"filter_size", "filter_size", ParamKind::kU32List},
                     {"stride", "stride", ParamKind::kU32List},
                     {"pad_amount", "pad_amount", ParamKind::kU32Pairs}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
