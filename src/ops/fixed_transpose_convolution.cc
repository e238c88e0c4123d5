// TransposeConv2d on stored integers: results whose positions leave the same rest by the strides see the same weights;
// each such phase is a convolution with stride 1.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/fixed/column_weights.h"
#include "ops/activation.h"
#include "ops/fixed_product.h"
#include "ops/registry.h"
#include "ops/spatial.h"
#include "ops/transpose_convolution.h"

namespace htpipe::ops {
namespace {

using kernels::Window;

/// One axis of a phase.
struct PhaseAxis {
  std::int64_t first = 0;    ///< result position
  std::int64_t count = 0;    ///< result positions, a stride apart
  std::int64_t rest = 0;     ///< first weight
  std::int64_t weights = 0;  ///< a stride apart
  std::int64_t pad = 0;      ///< of the convolution; may be negative
};

std::vector<PhaseAxis> phases_of(std::int64_t made, std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  std::vector<PhaseAxis> phases;
  for (std::int64_t first = 0; first < std::min(stride, made); ++first) {
    PhaseAxis phase;
    phase.first = first;
    phase.count = (made - first + stride - 1) / stride;
    phase.rest = (first + pad) % stride;
    phase.weights = std::max<std::int64_t>((kernel - phase.rest + stride - 1) / stride, 0);
    phase.pad = phase.weights - 1 - (first + pad) / stride;
    phases.push_back(phase);
  }
  return phases;
}

struct Phase {
  PhaseAxis rows;
  PhaseAxis columns;
  Window window;
  FixedProduct product;
};

class FixedTransposeConvolution {
 public:
  explicit FixedTransposeConvolution(TransposeShapes shapes) : shapes_(std::move(shapes)) {}

  Status prepare(const KernelRequest& request, const kernels::ColumnWeights& weights) {
    const Window& w = shapes_.window;
    element_ = size_of(request.results[0]->dtype);
    HTPIPE_TRY(const std::vector<std::int32_t> bias, stored_bias(request.node, 2));
    const bool scaled = request.node.has(2) && request.node.type(2).encoding;
    const float bias_scale = scaled ? request.node.type(2).encoding->scale() : 1.0F;
    for (const PhaseAxis& rows : phases_of(w.in_h, w.kernel_h, w.stride_h, w.pad_top)) {
      for (const PhaseAxis& columns : phases_of(w.in_w, w.kernel_w, w.stride_w, w.pad_left)) {
        Phase phase{rows, columns, window_of(rows, columns), {}};
        const kernels::ColumnWeights own = weights_of(rows, columns, weights);
        const std::int64_t k = phase.window.cells() * shapes_.in_channels;
        HTPIPE_TRY(phase.product,
                   FixedProduct::make({request.node.type(0), *request.results[0], own, k, out_channels(), 1, bias,
                                       bias_scale, request.htp_version, kernels::ConvForm::kStandard}));
        const std::int64_t results = w.n * phase.window.out_pixels() * out_channels();
        result_bytes_ = std::max(result_bytes_, static_cast<std::size_t>(results) * element_);
        scratch_bytes_ = std::max(scratch_bytes_, phase.product.scratch_bytes(phase.window));
        lane_scratch_bytes_ = std::max(lane_scratch_bytes_, phase.product.lane_scratch_bytes(phase.window));
        phases_.push_back(std::move(phase));
      }
    }
    result_bytes_ = (result_bytes_ + 63) / 64 * 64;
    return {};
  }

  [[nodiscard]] std::size_t scratch_bytes() const { return result_bytes_ + scratch_bytes_; }
  [[nodiscard]] std::size_t lane_scratch_bytes() const { return lane_scratch_bytes_; }

  void run(const KernelCall& call) const {
    const Window& w = shapes_.window;
    const std::size_t pixel_bytes = static_cast<std::size_t>(out_channels()) * element_;
    for (const Phase& phase : phases_) {
      phase.product.run(phase.window, call.operands[0], call.scratch, call, result_bytes_);
      const std::byte* from = call.scratch;
      for (std::int64_t image = 0; image < w.n; ++image) {
        for (std::int64_t row = 0; row < phase.rows.count; ++row) {
          const std::int64_t line = image * w.in_h + phase.rows.first + row * w.stride_h;
          for (std::int64_t x = 0; x < phase.columns.count; ++x, from += pixel_bytes) {
            const std::int64_t pixel = line * w.in_w + phase.columns.first + x * w.stride_w;
            std::copy_n(from, pixel_bytes, call.out<std::byte>(0) + static_cast<std::size_t>(pixel) * pixel_bytes);
          }
        }
      }
    }
  }

 private:
  [[nodiscard]] std::int64_t out_channels() const { return shapes_.out_per_group; }

  [[nodiscard]] Window window_of(const PhaseAxis& rows, const PhaseAxis& columns) const {
    Window window;
    window.n = shapes_.window.n;
    window.channels = shapes_.in_channels;
    window.in_h = shapes_.window.out_h;
    window.in_w = shapes_.window.out_w;
    window.out_h = rows.count;
    window.out_w = columns.count;
    // A phase that no weight reaches is multiplied by a zero.
    window.kernel_h = std::max<std::int64_t>(rows.weights, 1);
    window.kernel_w = std::max<std::int64_t>(columns.weights, 1);
    window.pad_top = rows.pad;
    window.pad_left = columns.pad;
    return window;
  }

  /// The weights of a phase as a matrix [rows and columns backwards, in][out].
  [[nodiscard]] kernels::ColumnWeights weights_of(const PhaseAxis& rows, const PhaseAxis& columns,
                                                  const kernels::ColumnWeights& weights) const {
    const Window& w = shapes_.window;
    kernels::ColumnWeights own;
    own.scales = weights.scales;
    const std::int64_t cells = std::max<std::int64_t>(rows.weights, 1) * std::max<std::int64_t>(columns.weights, 1);
    own.values.assign(static_cast<std::size_t>(cells * shapes_.in_channels * out_channels()), 0);
    for (std::int64_t i = 0; i < rows.weights; ++i) {
      for (std::int64_t j = 0; j < columns.weights; ++j) {
        const std::int64_t kh = rows.rest + (rows.weights - 1 - i) * w.stride_h;
        const std::int64_t kw = columns.rest + (columns.weights - 1 - j) * w.stride_w;
        const std::int64_t from = (kh * w.kernel_w + kw) * shapes_.in_channels;
        const std::int64_t to = (i * columns.weights + j) * shapes_.in_channels;
        std::copy_n(weights.values.begin() + from * out_channels(), shapes_.in_channels * out_channels(),
                    own.values.begin() + to * out_channels());
      }
    }
    kernels::shrink({out_channels(), 1}, own);  // each phase by its own weights
    return own;
  }

  TransposeShapes shapes_;
  std::size_t element_ = 1;
  std::size_t result_bytes_ = 0;  ///< of the results of one phase
  std::size_t scratch_bytes_ = 0;
  std::size_t lane_scratch_bytes_ = 0;
  std::vector<Phase> phases_;
};

}  // namespace

Result<Kernel> fixed_transpose_convolution(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const TransposeShapes shapes, transpose_convolution_shapes(node, 2));
  if (!is_nhwc(node.attributes)) return fail(Code::kNoFixedRule, "only channel-last data has an integer rule");
  HTPIPE_CHECK_OK(check_activation_encoding(node.attributes.text("activation"), *request.results[0]));
  if (shapes.group > 1) {
    return fail(Code::kNoFixedRule, "the emulator computes transposed convolutions with groups wrong or crashes");
  }
  const auto& pad = node.attributes.integers("pad_amount");
  const auto& extra = node.attributes.integers("output_padding");
  if (size_of(node.type(0).dtype) == 2 && (extra[0] > pad[1] || extra[1] > pad[3])) {
    return fail(Code::kNoFixedRule, "16-bit results behind the last weight crash the vendor's runtime");
  }
  HTPIPE_TRY(const Tensor weight, nhwc_weights(node, transpose_conv2d().weight_to_nhwc));
  if (weight.type().encoding && weight.type().encoding->per_block() && shapes.window.cells() > 1) {
    return fail(Code::kNoFixedRule, "a transposed convolution with scales per block unless it is 1x1");
  }
  HTPIPE_TRY(
      kernels::ColumnWeights columns,
      kernels::column_weights(weight.type(), weight.bytes().data(), {shapes.out_per_group, 1}, kernels::Excess::kKeep));
  auto convolution = std::make_shared<FixedTransposeConvolution>(shapes);
  HTPIPE_CHECK_OK(convolution->prepare(request, columns));
  Kernel kernel;
  kernel.scratch_bytes = convolution->scratch_bytes();
  kernel.lane_scratch_bytes = convolution->lane_scratch_bytes();
  kernel.run = [convolution](const KernelCall& call) { convolution->run(call); };
  return kernel;
}

}  // namespace htpipe::ops
