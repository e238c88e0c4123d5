#include "ops/transpose_convolution.h"

#include <fmt/core.h>

#include <algorithm>
#include <memory>

#include "kernels/gemm_f32.h"
#include "kernels/window.h"
#include "ops/activation.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

using kernels::Window;

/// The weights of one group as a matrix [in, cells * out]: what an input pixel adds to its patch.
void gather_weights(const TransposeShapes& s, bool nhwc, const float* weights, std::int64_t g, float* matrix) {
  const std::int64_t cells = s.window.cells();
  for (std::int64_t i = g * s.in_per_group(); i < (g + 1) * s.in_per_group(); ++i) {
    for (std::int64_t cell = 0; cell < cells; ++cell) {
      for (std::int64_t o = 0; o < s.out_per_group; ++o) {
        const std::int64_t at =
            nhwc ? (cell * s.in_channels + i) * s.out_per_group + o : (i * s.out_per_group + o) * cells + cell;
        *matrix++ = weights[at];
      }
    }
  }
}

class FloatTransposeConvolution {
 public:
  FloatTransposeConvolution(const NodeView& node, const TransposeShapes& shapes, ActivationRange range)
      : shapes_(shapes), range_(range), has_bias_(node.has(2)), nhwc_(is_nhwc(node.attributes)) {
    panel_count_ = kernels::packed_count_f32(shapes.in_per_group(), shapes.patch());
    line_count_ = shapes.window.out_w * shapes.in_per_group();
    patch_count_ = shapes.window.out_w * shapes.patch();
    if (const Tensor* weight = node.constants[1]) {
      constant_ = std::make_shared<std::vector<float>>(static_cast<std::size_t>(shapes.group * panel_count_));
      std::vector<float> matrix(static_cast<std::size_t>(shapes.in_per_group() * shapes.patch()));
      pack(weight->data<float>().data(), matrix.data(), constant_->data());
    }
  }

  [[nodiscard]] std::size_t scratch_bytes() const {
    const std::int64_t packing =
        constant_ ? 0 : shapes_.group * panel_count_ + shapes_.in_per_group() * shapes_.patch();
    return static_cast<std::size_t>(line_count_ + patch_count_ + packing) * sizeof(float);
  }

  void run(const KernelCall& call) const {
    const Window& w = shapes_.window;
    auto* line = reinterpret_cast<float*>(call.scratch);
    float* patches = line + line_count_;
    const float* panels = constant_ ? constant_->data() : nullptr;
    if (panels == nullptr) {
      float* packed = patches + patch_count_;
      pack(call.in<float>(1), packed + shapes_.group * panel_count_, packed);
      panels = packed;
    }
    const std::int64_t image_size = w.in_pixels() * w.channels;
    for (std::int64_t image = 0; image < w.n; ++image) {
      float* out = call.out<float>(0) + image * image_size;
      std::fill(out, out + image_size, 0.0F);
      for (std::int64_t row = 0; row < w.out_lines(); ++row) {
        const float* in = call.in<float>(0) + (image * w.out_lines() + row) * w.out_w * shapes_.in_channels;
        for (std::int64_t g = 0; g < shapes_.group; ++g) add_line(in, row, g, panels, line, patches, out);
      }
      finish(has_bias_ ? call.in<float>(2) : nullptr, out);
    }
  }

 private:
  void pack(const float* weights, float* matrix, float* panels) const {
    for (std::int64_t g = 0; g < shapes_.group; ++g) {
      gather_weights(shapes_, nhwc_, weights, g, matrix);
      kernels::pack_f32(matrix, shapes_.in_per_group(), shapes_.patch(), shapes_.patch(), 1, panels + g * panel_count_);
    }
  }

  /// Adds what one input row of one group gives.
  void add_line(const float* in, std::int64_t row, std::int64_t g, const float* panels, float* line, float* patches,
                float* out) const {
    const Window& w = shapes_.window;
    const float* left = in;
    if (shapes_.group > 1) {
      for (std::int64_t x = 0; x < w.out_w; ++x) {
        std::copy_n(in + x * shapes_.in_channels + g * shapes_.in_per_group(), shapes_.in_per_group(),
                    line + x * shapes_.in_per_group());
      }
      left = line;
    }
    kernels::gemm_f32(left, {shapes_.in_per_group(), shapes_.patch(), panels + g * panel_count_}, patches, w.out_w);
    const float* patch = patches;
    for (std::int64_t x = 0; x < w.out_w; ++x) {
      for (std::int64_t kd = 0; kd < w.kernel_d; ++kd) {
        const std::int64_t z = w.slice_of(row / w.out_h, kd);
        for (std::int64_t kh = 0; kh < w.kernel_h; ++kh) {
          const std::int64_t y = w.row_of(row % w.out_h, kh);
          for (std::int64_t kw = 0; kw < w.kernel_w; ++kw, patch += shapes_.out_per_group) {
            const std::int64_t column = w.column_of(x, kw);
            if (!w.inside(z, y, column)) continue;
            float* target = out + ((z * w.in_h + y) * w.in_w + column) * w.channels + g * shapes_.out_per_group;
            for (std::int64_t c = 0; c < shapes_.out_per_group; ++c) target[c] += patch[c];
          }
        }
      }
    }
  }

  void finish(const float* bias, float* out) const {
    const std::int64_t channels = shapes_.window.channels;
    for (std::int64_t pixel = 0; pixel < shapes_.window.in_pixels() && bias != nullptr; ++pixel) {
      for (std::int64_t c = 0; c < channels; ++c) out[pixel * channels + c] += bias[c];
    }
    apply_activation(range_, out, shapes_.window.in_pixels() * channels);
  }

  TransposeShapes shapes_;
  ActivationRange range_;
  bool has_bias_;
  bool nhwc_;
  std::int64_t panel_count_ = 0;  ///< of one group
  std::int64_t line_count_ = 0;
  std::int64_t patch_count_ = 0;
  std::shared_ptr<std::vector<float>> constant_;  ///< packed constant weights; null where they are computed
};

}  // namespace

Result<TransposeShapes> transpose_convolution_shapes(const NodeView& node, std::size_t axes) {
  const Shape& weight = node.type(1).shape;
  const Shape& data = node.type(0).shape;
  if (weight.size() != axes + 2 || data.size() != axes + 2) {
    return fail(Code::kShapeMismatch, fmt::format("input and weights need rank {}", axes + 2));
  }
  const bool nhwc = node.attributes.text("data_layout") == "nhwc";
  TransposeShapes shapes;
  shapes.group = node.attributes.integer("group");
  shapes.in_channels = weight[nhwc ? axes : 0];
  shapes.out_per_group = weight[nhwc ? axes + 1 : 1];
  if (shapes.group < 1 || shapes.in_channels % shapes.group != 0 || shapes.out_per_group < 1 ||
      shapes.group > (std::int64_t{1} << 31) || shapes.out_per_group > (std::int64_t{1} << 31) ||
      shapes.in_channels != channels_of(data, nhwc)) {
    return fail(Code::kShapeMismatch, fmt::format("weights {} with {} groups do not fit {}", to_string(weight),
                                                  shapes.group, to_string(data)));
  }
  const std::int64_t out_channels = shapes.out_per_group * shapes.group;
  const auto first = weight.begin() + (nhwc ? 0 : 2);
  HTPIPE_TRY(shapes.window,
             make_transposed_window(node, {first, first + static_cast<std::ptrdiff_t>(axes)}, out_channels));
  if (node.has(2) && node.type(2).count() != out_channels) {
    return fail(Code::kShapeMismatch,
                fmt::format("bias {} for {} output channels", to_string(node.type(2).shape), out_channels));
  }
  return shapes;
}

std::vector<AttributeSpec> transpose_convolution_attributes(std::size_t axes) {
  return {
      layout_attribute(),
      stride_attribute(axes),
      pad_attribute(axes),
      {"output_padding", std::vector<std::int64_t>(axes, 0), false, "rows and columns added at the end of each axis"},
      {"group", std::int64_t{1}, false, "number of groups"},
      activation_attribute()};
}

std::vector<ParamLowering> transpose_convolution_params() {
  return {{"stride", "stride", ParamKind::kU32List},
          {"pad_amount", "pad_amount", ParamKind::kU32Pairs},
          {"output_padding", "output_padding", ParamKind::kU32List, {}, true},
          {"group", "group", ParamKind::kU32, {}, true}};
}

Result<std::vector<TensorType>> infer_transpose_convolution(const NodeView& node, std::size_t axes) {
  HTPIPE_CHECK_OK(check_products(node));
  HTPIPE_TRY(const TransposeShapes shapes, transpose_convolution_shapes(node, axes));
  HTPIPE_CHECK_OK(activation_range(node.attributes.text("activation")));
  const Window& w = shapes.window;
  Window result;  // window_result takes the sizes of a window's output
  result.n = w.n;
  result.out_d = w.in_d;
  result.out_h = w.in_h;
  result.out_w = w.in_w;
  return std::vector<TensorType>{window_result(node, result, w.channels)};
}

Result<Kernel> transpose_convolution_kernel(const KernelRequest& request, std::size_t axes) {
  const NodeView& node = request.node;
  HTPIPE_CHECK_OK(require_f32(node));
  HTPIPE_TRY(const TransposeShapes shapes, transpose_convolution_shapes(node, axes));
  HTPIPE_TRY(const ActivationRange range, activation_range(node.attributes.text("activation")));
  const FloatTransposeConvolution convolution(node, shapes, range);
  Kernel kernel;
  kernel.scratch_bytes = convolution.scratch_bytes();
  kernel.run = [convolution](const KernelCall& call) { convolution.run(call); };
  return with_layout(node, shapes.window.in_pixels(), shapes.window.channels, std::move(kernel));
}

std::int64_t transpose_convolution_macs(const NodeView& node, std::span<const TensorType* const> /*results*/) {
  const Shape& weight = node.type(1).shape;
  const std::int64_t in_channels = is_nhwc(node.attributes) ? weight[weight.size() - 2] : weight[0];
  return in_channels > 0 ? node.type(0).count() * (element_count(weight) / in_channels) : 0;
}

}  // namespace htpipe::ops
