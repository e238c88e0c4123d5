// PoolAvg2d: mean over a 2-D window; padding counts as zeros only with count_pad_for_edges. Source: QNN PoolAvg2d.
#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <vector>

#include "kernels/fixed/elementwise.h"
#include "kernels/fixed/rounding.h"
#include "ops/pool.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

using kernels::Grid;
using kernels::Window;

bool padded(const Attributes& attributes) {
  for (const std::int64_t pad : attributes.integers("pad_amount")) {
    if (pad != 0) return true;
  }
  return false;
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const Window window, pool_window(request.node));
  const bool count_padding = request.node.attributes.flag("count_pad_for_edges");
  Kernel kernel;
  kernel.run = [window, count_padding](const KernelCall& call) {
    const float* in = call.in<float>(0);
    float* out = call.out<float>(0);
    float sum = 0.0F;
    for_each_window(
        window, [&] { sum = 0.0F; }, [&](std::int64_t index) { sum += in[index]; },
        [&](std::int64_t index, std::int64_t cells) {
          out[index] = sum / static_cast<float>(count_padding ? window.kernel_h * window.kernel_w : cells);
        });
  };
  return with_layout(request.node, window, window.channels, std::move(kernel));
}

/// Mean of centred stored values, rounded as the chip does for one window.
class MeanRounding {
 public:
  MeanRounding(const Grid& from, const Grid& to, bool like_convolution, std::int64_t kernel_cells)
      : from_(from), to_(to), like_convolution_(like_convolution) {
    if (!like_convolution) return;
    // Stride 1 with an odd kernel: an 8-bit convolution with all weights 128.
    const double multiplier = from.scale / (128.0 * static_cast<double>(kernel_cells) * to.scale);
    const int exponent = kernels::floor_log2(multiplier);
    const int log_inverse = multiplier == std::ldexp(1.0, exponent) ? -exponent : -exponent - 1;
    shift_ = log_inverse - 3;
    scaled_ = static_cast<std::int64_t>(std::floor(std::ldexp(multiplier, shift_ + 15) + 0.5));
  }

  [[nodiscard]] std::int64_t operator()(std::int64_t sum, std::int64_t cells) const {
    std::int64_t q = 0;
    if (like_convolution_) {
      const std::int64_t a = kernels::shift(128 * sum, shift_);
      q = ((2 * a + 1) * scaled_ + (std::int64_t{1} << 15)) >> 16;
    } else if (from_.scale == to_.scale) {
      // Correctly rounded, half up: floor((2 sum + n) / 2n).
      const std::int64_t numerator = 2 * sum + cells;
      const std::int64_t denominator = 2 * cells;
      q = numerator / denominator - (numerator % denominator < 0 ? 1 : 0);
    } else {
      // Two roundings, both half up.
      const double ratio = from_.scale / to_.scale;
      const int k = 4 - kernels::floor_log2(ratio);
      const kernels::Mantissa m = kernels::mantissa(ratio / static_cast<double>(cells), 15);
      const std::int64_t t = kernels::shift(sum * m.value + kernels::shift(1, k + 1 - m.shift), m.shift - k);
      q = kernels::shift(t + kernels::shift(1, 1 - k), k);
    }
    return kernels::clamp_to(q + to_.zero, 0, to_.high);
  }

 private:
  Grid from_;
  Grid to_;
  bool like_convolution_;
  int shift_ = 0;
  std::int64_t scaled_ = 0;
};

/// The chain of pools that the chip runs for an even kernel equal to its stride: k/2 first, then 2.
std::vector<std::int64_t> chain_of(std::int64_t kernel) {
  std::vector<std::int64_t> chain;
  while (kernel % 2 == 0 && kernel > 2) {
    chain.insert(chain.begin(), 2);
    kernel /= 2;
  }
  chain.insert(chain.begin(), kernel);
  return chain;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const Window window, pool_window(node));
  if (!is_nhwc(node.attributes)) return fail(Code::kNoFixedRule, "only channel-last data has an integer rule");
  HTPIPE_TRY(const Grid from, Grid::of(node.type(0)));
  HTPIPE_TRY(const Grid to, Grid::of(*request.results[0]));
  const bool count_padding = node.attributes.flag("count_pad_for_edges");
  const bool square = window.kernel_h == window.kernel_w;
  const bool stride_one = window.stride_h == 1 && window.stride_w == 1;
  const bool single = window.out_h == 1 && window.out_w == 1;
  const bool tiled = window.stride_h == window.kernel_h && window.stride_w == window.kernel_w;
  const bool has_padding = padded(node.attributes);
  const bool like_convolution = square && stride_one && !single && window.kernel_h % 2 == 1 && window.kernel_h > 1 &&
                                (!has_padding || count_padding) && !from.wide() && request.htp_version >= 73;
  const bool chained = square && tiled && !single && window.kernel_h % 2 == 0 && window.kernel_h > 2 && !has_padding &&
                       from.scale == to.scale && !from.wide();
  if (chained && (window.in_h % window.kernel_h != 0 || window.in_w % window.kernel_w != 0)) {
    return fail(Code::kNoFixedRule, "a tiled mean with rows or columns left over crashes the vendor's runtime");
  }
  const DType in_dtype = node.type(0).dtype;
  const DType out_dtype = request.results[0]->dtype;
  const std::vector<std::int64_t> chain = chained ? chain_of(window.kernel_h) : std::vector<std::int64_t>{0};
  Kernel kernel;
  // Two buffers of stored values for the stages of a chain.
  const std::int64_t in_count = window.n * window.in_h * window.in_w * window.channels;
  kernel.scratch_bytes = static_cast<std::size_t>(2 * in_count) * sizeof(std::int64_t);
  kernel.run = [=](const KernelCall& call) {
    auto* stage_in = reinterpret_cast<std::int64_t*>(call.scratch);
    std::int64_t* stage_out = stage_in + in_count;
    for (std::int64_t i = 0; i < in_count; ++i) stage_in[i] = kernels::load(call.operands[0], in_dtype, i);
    Window stage = window;
    Grid grid = from;
    for (std::size_t step = 0; step < chain.size(); ++step) {
      if (chained) {
        stage.kernel_h = stage.kernel_w = stage.stride_h = stage.stride_w = chain[step];
        stage.out_h = stage.in_h / chain[step];
        stage.out_w = stage.in_w / chain[step];
      }
      const std::int64_t area = stage.kernel_h * stage.kernel_w;
      const MeanRounding mean(grid, to, like_convolution, area);
      std::int64_t sum = 0;
      for_each_window(
          stage, [&] { sum = 0; }, [&](std::int64_t index) { sum += stage_in[index] - grid.zero; },
          [&](std::int64_t index, std::int64_t cells) { stage_out[index] = mean(sum, count_padding ? area : cells); });
      std::swap(stage_in, stage_out);
      stage.in_h = stage.out_h;
      stage.in_w = stage.out_w;
      grid = to;
    }
    const std::int64_t out_count = window.n * window.out_h * window.out_w * window.channels;
    for (std::int64_t i = 0; i < out_count; ++i) kernels::store(call.results[0], out_dtype, i, stage_in[i]);
  };
  return kernel;
}

}  // namespace

const OpDef& pool_avg2d() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "PoolAvg2d";
    def.doc = "Mean over a 2-D window.";
    def.operands = {{"input"}};
    def.attributes = pool_attributes();
    def.attributes.push_back({"count_pad_for_edges", false, false, "padding counts as zeros"});
    def.infer = infer_pool;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kSpatial;
    def.result_encoding = ResultEncoding::kSameAsInput;
    std::vector<ParamLowering> params = pool_params();
    params.push_back({"count_pad_for_edges", "count_pad_for_edges", ParamKind::kBool, {}, true});
    def.lowering = {"PoolAvg2d", std::move(params)};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
