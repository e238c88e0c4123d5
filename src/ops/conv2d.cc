// Conv2d: 2-D convolution with optional groups, bias and fused activation.
// Data [n,c,h,w] with weights [out,in/group,kh,kw] ("nchw"), or [n,h,w,c] with [kh,kw,in/group,out] ("nhwc").
// Source: QNN operator Conv2d.
#include <fmt/core.h>

#include <memory>

#include "kernels/gemm.h"
#include "ops/activation.h"
#include "ops/fixed_product.h"
#include "ops/registry.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

using kernels::Window;

struct Shapes {
  Window window;
  std::int64_t group = 1;
  std::int64_t in_per_group = 1;
  std::int64_t out_channels = 1;
  [[nodiscard]] std::int64_t patch() const { return window.kernel_h * window.kernel_w * in_per_group; }
  [[nodiscard]] std::int64_t out_per_group() const { return out_channels / group; }
};

Result<Shapes> shapes_of(const NodeView& node) {
  const Shape& weight = node.type(1).shape;
  if (weight.size() != 4) return fail(Code::kShapeMismatch, "weights need rank 4");
  const bool nhwc = node.attributes.text("data_layout") == "nhwc";
  Shapes shapes;
  shapes.group = node.attributes.integer("group");
  shapes.in_per_group = weight[nhwc ? 2 : 1];
  shapes.out_channels = weight[nhwc ? 3 : 0];
  HTPIPE_TRY(shapes.window, make_window(node, weight[nhwc ? 0 : 2], weight[nhwc ? 1 : 3], true, false));
  if (shapes.group < 1 || shapes.out_channels < 1 || shapes.in_per_group * shapes.group != shapes.window.channels ||
      shapes.out_channels % shapes.group != 0) {
    return fail(Code::kShapeMismatch, fmt::format("weights {} with {} groups do not fit {}", to_string(weight),
                                                  shapes.group, to_string(node.type(0).shape)));
  }
  if (node.has(2) && node.type(2).count() != shapes.out_channels) {
    return fail(Code::kShapeMismatch,
                fmt::format("bias {} for {} output channels", to_string(node.type(2).shape), shapes.out_channels));
  }
  return shapes;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_TRY(const Shapes shapes, shapes_of(node));
  HTPIPE_CHECK_OK(activation_range(node.attributes.text("activation")));
  return std::vector<TensorType>{window_result(node, shapes.window, shapes.out_channels)};
}

/// Columns [first, first + count) of a row-major [rows, columns] matrix.
template <typename T>
std::vector<T> columns(std::span<const T> matrix, std::int64_t total, std::int64_t first, std::int64_t count) {
  std::vector<T> result;
  const std::int64_t rows = static_cast<std::int64_t>(matrix.size()) / total;
  for (std::int64_t row = 0; row < rows; ++row) {
    const auto begin = matrix.begin() + row * total + first;
    result.insert(result.end(), begin, begin + count);
  }
  return result;
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const Shapes shapes, shapes_of(node));
  HTPIPE_TRY(const ActivationRange range, activation_range(node.attributes.text("activation")));
  HTPIPE_TRY(const Tensor weight, nhwc_weights(node, conv2d().weight_to_nhwc));
  auto packed = std::make_shared<std::vector<kernels::PackedF32>>();
  for (std::int64_t g = 0; g < shapes.group; ++g) {
    const auto part =
        columns(weight.data<float>(), shapes.out_channels, g * shapes.out_per_group(), shapes.out_per_group());
    packed->push_back(kernels::pack_f32(part.data(), shapes.patch(), shapes.out_per_group()));
  }
  const bool has_bias = node.has(2);
  Kernel kernel;
  const std::int64_t width = shapes.window.out_w;
  kernel.scratch_bytes = static_cast<std::size_t>(width * (shapes.patch() + shapes.out_per_group())) * sizeof(float);
  kernel.run = [shapes, range, packed, has_bias, width](const KernelCall& call) {
    const Window& window = shapes.window;
    const float* bias = has_bias ? call.in<float>(2) : nullptr;
    auto* patches = reinterpret_cast<float*>(call.scratch);
    float* sums = patches + width * shapes.patch();
    for (std::int64_t image = 0; image < window.n; ++image) {
      const float* in = call.in<float>(0) + image * window.in_h * window.in_w * window.channels;
      for (std::int64_t row = 0; row < window.out_h; ++row) {
        float* out = call.out<float>(0) + (image * window.out_h + row) * width * shapes.out_channels;
        for (std::int64_t g = 0; g < shapes.group; ++g) {
          kernels::gather_row(window, in, row, g * shapes.in_per_group, shapes.in_per_group, 0.0F, patches,
                              shapes.patch(), [](float x) { return x; });
          kernels::gemm_f32(patches, (*packed)[static_cast<std::size_t>(g)], sums, width);
          for (std::int64_t x = 0; x < width; ++x) {
            float* target = out + x * shapes.out_channels + g * shapes.out_per_group();
            const float* source = sums + x * shapes.out_per_group();
            for (std::int64_t c = 0; c < shapes.out_per_group(); ++c) {
              target[c] = source[c] + (bias != nullptr ? bias[g * shapes.out_per_group() + c] : 0.0F);
            }
          }
        }
        apply_activation(range, out, width * shapes.out_channels);
      }
    }
  };
  return with_layout(node, shapes.window, shapes.out_channels, std::move(kernel));
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const Shapes shapes, shapes_of(node));
  if (!is_nhwc(node.attributes)) return fail(Code::kNoFixedRule, "only channel-last data has an integer rule");
  HTPIPE_CHECK_OK(check_activation_encoding(node.attributes.text("activation"), *request.results[0]));
  HTPIPE_TRY(const Tensor weight, nhwc_weights(node, conv2d().weight_to_nhwc));
  if (weight.dtype() != DType::kI8) return fail(Code::kNoFixedRule, "weights need 8-bit storage");
  auto product = std::make_shared<FixedProduct>();
  HTPIPE_TRY(*product, FixedProduct::make(request, weight.data<std::int8_t>(), shapes.patch(), shapes.out_channels,
                                          shapes.group));
  Kernel kernel;
  const std::int64_t width = shapes.window.out_w;
  kernel.scratch_bytes = product->scratch_bytes(width);
  kernel.run = [shapes, product, width](const KernelCall& call) {
    const Window& window = shapes.window;
    for (std::int64_t image = 0; image < window.n; ++image) {
      for (std::int64_t row = 0; row < window.out_h; ++row) {
        const std::int64_t first_out = (image * window.out_h + row) * width * shapes.out_channels;
        for (std::int64_t g = 0; g < shapes.group; ++g) {
          product->run_row(window, call.operands[0], image, row, g, shapes.in_per_group, call.results[0], first_out,
                           call.scratch);
        }
      }
    }
  };
  return kernel;
}

}  // namespace

const OpDef& conv2d() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Conv2d";
    def.doc = "2-D convolution with optional groups, bias and fused activation.";
    def.operands = {{"input"}, {"weight", Role::kWeight}, {"bias", Role::kBias, true}};
    def.attributes = {layout_attribute(),
                      stride_attribute(),
                      pad_attribute(),
                      dilation_attribute(),
                      {"group", std::int64_t{1}, false, "number of groups"},
                      activation_attribute()};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.macs = [](const NodeView& node, std::span<const TensorType* const> results) {
      const Shape& weight = node.type(1).shape;
      const std::int64_t out_channels = is_nhwc(node.attributes) ? weight[3] : weight[0];
      return results[0]->count() * (element_count(weight) / out_channels);
    };
    def.layout = Layout::kSpatial;
    def.weight_channel_axis = 3;
    def.weight_to_nhwc = {2, 3, 1, 0};
    def.lowering = {"Conv2d",
                    {{"stride", "stride", ParamKind::kU32List},
                     {"pad_amount", "pad_amount", ParamKind::kU32Pairs},
                     {"dilation", "dilation", ParamKind::kU32List},
                     {"group", "group", ParamKind::kU32, {}, true}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
