#include "ops/convolution.h"

#include <fmt/core.h>

#include <memory>
#include <string>

#include "kernels/gather_f32.h"
#include "kernels/gemm_f32.h"
#include "ops/activation.h"
#include "ops/packed.h"
#include "ops/product.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

using kernels::Window;

/// [(kd,)kh,kw,in,out] of [out,in,(kd,)kh,kw].
void to_channel_last(const float* from, std::int64_t out, std::int64_t in, std::int64_t cells, float* to) {
  for (std::int64_t o = 0; o < out; ++o) {
    for (std::int64_t i = 0; i < in; ++i) {
      for (std::int64_t cell = 0; cell < cells; ++cell) to[(cell * in + i) * out + o] = *from++;
    }
  }
}

/// Packs the columns of every group, one behind the other.
void pack_groups(const ConvolutionShapes& shapes, const float* weights, float* panels) {
  const std::int64_t part = shapes.out_per_group();
  for (std::int64_t g = 0; g < shapes.group; ++g) {
    kernels::pack_f32(weights + g * part, shapes.patch(), part, shapes.out_channels, 1, panels);
    panels += kernels::packed_count_f32(shapes.patch(), part);
  }
}

class FloatConvolution {
 public:
  FloatConvolution(const NodeView& node, const ConvolutionShapes& shapes, ActivationRange range)
      : shapes_(shapes), range_(range), has_bias_(node.has(2)), nhwc_(is_nhwc(node.attributes)) {
    group_count_ = kernels::packed_count_f32(shapes.patch(), shapes.out_per_group());
    if (const Tensor* weight = node.constants[1]) {
      const std::string kind = fmt::format("convolution {} {} {} {}", nhwc_ ? "nhwc" : "nchw", shapes.group,
                                           shapes.window.cells(), shapes.out_channels);
      constant_ = shared_packed<std::vector<float>>(*weight, kind, [&] {
        std::vector<float> panels(static_cast<std::size_t>(shapes_.group * group_count_));
        std::vector<float> turned(nhwc_ ? 0 : static_cast<std::size_t>(weight->count()));
        pack_groups(shapes_, channel_last(weight->data<float>().data(), turned.data()), panels.data());
        return panels;
      });
    }
  }

  [[nodiscard]] std::size_t scratch_bytes() const {
    const std::int64_t weights = shapes_.patch() * shapes_.out_channels;
    if (constant_) return 0;
    return static_cast<std::size_t>(shapes_.group * group_count_ + (nhwc_ ? 0 : weights)) * sizeof(float);
  }

  void run(const KernelCall& call) const {
    const Window& window = shapes_.window;
    const float* panels = constant_ ? constant_->data() : pack(call.in<float>(1), call.scratch);
    const float* bias = has_bias_ ? call.in<float>(2) : nullptr;
    const float* in = call.in<float>(0);
    const std::int64_t rows = window.n * window.out_pixels();
    const std::int64_t part = shapes_.out_per_group();
    for (std::int64_t g = 0; g < shapes_.group; ++g) {
      const kernels::PanelsF32 weights = {shapes_.patch(), part, panels + g * group_count_};
      const std::int64_t first = g * shapes_.in_per_group;
      float* out = call.out<float>(0) + g * part;
      const kernels::Epilogue epilogue = {bias != nullptr ? bias + g * part : nullptr, range_.low, range_.high};
      if (window.is_pointwise()) {  // pixels are the rows of the product
        share_product(call, rows, kernels::RowsF32{in + first, window.channels}, weights, out, shapes_.out_channels,
                      epilogue);
        continue;
      }
      const auto patches = [&](std::int64_t row, std::int64_t count, std::int64_t step, std::int64_t steps,
                               float* block) {
        kernels::gather_patches(window, in, first, shapes_.in_per_group, row, count, step, steps, block,
                                kernels::kBlockStride);
      };
      share_product(call, rows, patches, weights, out, shapes_.out_channels, epilogue);
    }
  }

 private:
  const float* channel_last(const float* weights, float* turned) const {
    if (nhwc_) return weights;
    to_channel_last(weights, shapes_.out_channels, shapes_.in_per_group, shapes_.window.cells(), turned);
    return turned;
  }

  const float* pack(const float* weights, std::byte* scratch) const {
    auto* space = reinterpret_cast<float*>(scratch);
    pack_groups(shapes_, channel_last(weights, space + shapes_.group * group_count_), space);
    return space;
  }

  ConvolutionShapes shapes_;
  ActivationRange range_;
  bool has_bias_;
  bool nhwc_;
  std::int64_t group_count_ = 0;                        ///< floats of a group's packed weights
  std::shared_ptr<const std::vector<float>> constant_;  ///< packed constant weights; null where they are computed
};

}  // namespace

Result<ConvolutionShapes> convolution_shapes(const NodeView& node, std::size_t axes) {
  const Shape& weight = node.type(1).shape;
  if (weight.size() != axes + 2) return fail(Code::kShapeMismatch, fmt::format("weights need rank {}", axes + 2));
  const bool nhwc = node.attributes.text("data_layout") == "nhwc";
  ConvolutionShapes shapes;
  shapes.group = node.attributes.integer("group");
  shapes.in_per_group = weight[nhwc ? axes : 1];
  shapes.out_channels = weight[nhwc ? axes + 1 : 0];
  const auto first = weight.begin() + (nhwc ? 0 : 2);
  HTPIPE_TRY(shapes.window, make_window(node, {first, first + static_cast<std::ptrdiff_t>(axes)}, false));
  if (shapes.group < 1 || shapes.out_channels < 1 || shapes.window.channels % shapes.group != 0 ||
      shapes.in_per_group != shapes.window.channels / shapes.group || shapes.out_channels % shapes.group != 0) {
    return fail(Code::kShapeMismatch, fmt::format("weights {} with {} groups do not fit {}", to_string(weight),
                                                  shapes.group, to_string(node.type(0).shape)));
  }
  if (node.has(2) && node.type(2).count() != shapes.out_channels) {
    return fail(Code::kShapeMismatch,
                fmt::format("bias {} for {} output channels", to_string(node.type(2).shape), shapes.out_channels));
  }
  return shapes;
}

std::vector<AttributeSpec> convolution_attributes(std::size_t axes) {
  return {layout_attribute(),
          stride_attribute(axes),
          pad_attribute(axes),
          dilation_attribute(axes),
          {"group", std::int64_t{1}, false, "number of groups"},
          activation_attribute()};
}

Result<std::vector<TensorType>> infer_convolution(const NodeView& node, std::size_t axes) {
  HTPIPE_CHECK_OK(check_products(node));
  HTPIPE_TRY(const ConvolutionShapes shapes, convolution_shapes(node, axes));
  HTPIPE_CHECK_OK(activation_range(node.attributes.text("activation")));
  return std::vector<TensorType>{window_result(node, shapes.window, shapes.out_channels)};
}

Result<Kernel> convolution_kernel(const KernelRequest& request, std::size_t axes) {
  const NodeView& node = request.node;
  HTPIPE_CHECK_OK(require_f32(node));
  HTPIPE_TRY(const ConvolutionShapes shapes, convolution_shapes(node, axes));
  HTPIPE_TRY(const ActivationRange range, activation_range(node.attributes.text("activation")));
  const FloatConvolution convolution(node, shapes, range);
  Kernel kernel;
  kernel.scratch_bytes = convolution.scratch_bytes();
  kernel.lane_scratch_bytes = kProductScratch;
  kernel.run = [convolution](const KernelCall& call) { convolution.run(call); };
  return with_layout(node, shapes.window.out_pixels(), shapes.out_channels, std::move(kernel));
}

std::int64_t convolution_macs(const NodeView& node, std::span<const TensorType* const> results) {
  const Shape& weight = node.type(1).shape;
  const std::int64_t out_channels = is_nhwc(node.attributes) ? weight.back() : weight.front();
  return results[0]->count() * (element_count(weight) / out_channels);
}

}  // namespace htpipe::ops
