// PoolAvg2d: mean over a 2-D window; padding counts as zeros only with count_pad_for_edges. Source: QNN PoolAvg2d.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "kernels/fixed/conv_requant.h"
#include "kernels/fixed/elementwise.h"
#include "kernels/fixed/fixed_loops.h"
#include "kernels/fixed/rounding.h"
#include "ops/lanes.h"
#include "ops/pool.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

using kernels::Grid;
using kernels::Window;

/// So many 16-bit values have a 32-bit sum.
constexpr std::int64_t kMostCells = 32768;

bool padded(const Attributes& attributes) {
  for (const std::int64_t pad : attributes.integers("pad_amount")) {
    if (pad != 0) return true;
  }
  return false;
}

/// How the chip computes a mean; which one depends on the geometry (docs/htp-arithmetic.md, "Mean pooling").
enum class MeanForm : std::uint8_t {
  kRounded,      ///< the correctly rounded mean; with several encodings rounded twice
  kReciprocal,   ///< times the reciprocal of the number of cells in 15 significant bits
  kTiled,        ///< the same, rounded half up to 15 fractional bits and then to the integer
  kFloat,        ///< in single precision
  kConvolution,  ///< as a convolution whose weights are all alike
};

struct MeanPlan {
  MeanForm form = MeanForm::kRounded;
  bool chained = false;
};

/// True when the last window reaches over the padding, as it may when the output size is rounded up.
bool overhangs(const Window& w, const Attributes& attributes) {
  const auto& pad = attributes.integers("pad_amount");
  return w.row_of(w.out_h - 1, w.kernel_h) > w.in_h + pad[1] || w.column_of(w.out_w - 1, w.kernel_w) > w.in_w + pad[3];
}

/// True for the geometries with uncounted padding and an odd square window whose means are rounded half up, in 8 bits.
bool rounded_edges(const Window& w, const Attributes& attributes) {
  if (w.kernel_h != w.kernel_w || w.stride_h != w.stride_w || w.kernel_h > 5 || w.stride_h > 2) return false;
  if (w.kernel_h == 3 && w.stride_h == 2) return true;
  const auto& pad = attributes.integers("pad_amount");
  return std::all_of(pad.begin(), pad.end(), [&](std::int64_t side) { return side == w.kernel_h / 2; });
}

/// The form of one mean over everything, or of means over windows side by side, in 8 bits.
MeanForm narrow_tile_form(const Window& w, bool single, bool has_padding, bool same_scale) {
  const bool two = w.kernel_h == 2 && w.kernel_w == 2;
  if (!same_scale) return MeanForm::kRounded;
  if (single) return MeanForm::kReciprocal;
  if (has_padding) return two ? MeanForm::kRounded : MeanForm::kFloat;
  return MeanForm::kTiled;
}

/// Errors: no-fixed-rule where the chip computes something else than a mean.
Result<MeanPlan> plan_of(const Window& w, const Attributes& attributes, bool wide, bool same_scale) {
  const bool has_padding = padded(attributes);
  const bool count_padding = attributes.flag("count_pad_for_edges");
  const bool square = w.kernel_h == w.kernel_w;
  const bool tiled = w.stride_h == w.kernel_h && w.stride_w == w.kernel_w;
  const bool single = w.out_h == 1 && w.out_w == 1;
  const bool strip = w.out_h == 1 || w.out_w == 1;
  const bool even = w.kernel_h % 2 == 0 || w.kernel_w % 2 == 0;
  const bool full = !has_padding || count_padding;  // every window has the same number of cells
  MeanPlan plan;
  if (overhangs(w, attributes)) {
    return fail(Code::kNoFixedRule, "the chip's mean over a window that reaches over the edge is another one");
  }
  if (tiled && has_padding && count_padding) {
    return fail(Code::kNoFixedRule, "the chip answers zeros for a tiled mean that counts its padding");
  }
  const bool halves = w.kernel_h % 2 == 0 && w.kernel_w % 2 == 0 && w.kernel_h > 2 && w.kernel_w > 2;
  if (tiled && !single && halves && !has_padding && same_scale) {
    plan.chained = true;
    if (w.in_h % w.kernel_h != 0 || w.in_w % w.kernel_w != 0) {
      return fail(Code::kNoFixedRule, "a tiled mean with rows or columns left over crashes the vendor's runtime");
    }
  }
  const bool stride_one = w.stride_h == 1 && w.stride_w == 1;
  if (square && stride_one && !strip && !even && w.kernel_h > 1 && full) {
    plan.form = MeanForm::kConvolution;
  } else if (single || tiled) {
    plan.form = wide ? MeanForm::kReciprocal : narrow_tile_form(w, single, has_padding, same_scale);
  } else if (even) {
    plan.form = MeanForm::kFloat;
  } else if (!wide && same_scale && !full) {
    plan.form = rounded_edges(w, attributes) ? MeanForm::kRounded : MeanForm::kFloat;
  } else if (wide) {
    plan.form = square && full && w.stride_h == w.stride_w && !stride_one ? MeanForm::kReciprocal : MeanForm::kFloat;
  }
  return plan;
}

/// x / 2^bits, half up; from negative numbers of bits a shift to the left.
std::int64_t round_shift(std::int64_t x, int bits) {
  return kernels::shift(bits > 0 ? x + (std::int64_t{1} << (bits - 1)) : x, bits);
}

/// Mean of stored values. `sum` is taken over centred values.
class Mean {
 public:
  Mean(const Grid& from, const Grid& to, MeanForm form) : from_(from), to_(to), form_(form) {}

  [[nodiscard]] std::int64_t operator()(std::int64_t sum, float real_sum, std::int64_t cells) const {
    const double ratio = from_.scale / to_.scale;
    std::int64_t q = 0;
    if (form_ == MeanForm::kFloat) {
      const float mean = real_sum / static_cast<float>(cells);
      const float stored = mean * (1.0F / static_cast<float>(to_.scale)) + static_cast<float>(to_.zero);
      q = static_cast<std::int64_t>(std::rint(stored)) - to_.zero;
    } else if (form_ == MeanForm::kReciprocal) {
      const kernels::Mantissa m = kernels::mantissa(ratio / static_cast<double>(cells), 15);
      q = kernels::shift(sum * m.value + kernels::shift(1, 1 - m.shift), m.shift);
    } else if (form_ == MeanForm::kTiled) {
      constexpr int kFraction = 15;
      const kernels::Mantissa m = kernels::mantissa(1.0 / static_cast<double>(cells), 15);
      q = round_shift(round_shift(sum * m.value, m.shift - kFraction), kFraction);
    } else if (from_.scale == to_.scale) {
      // Half up: floor((2 sum + n) / 2n).
      const std::int64_t numerator = 2 * sum + cells;
      const std::int64_t denominator = 2 * cells;
      q = numerator / denominator - (numerator % denominator < 0 ? 1 : 0);
    } else {
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
  MeanForm form_;
};

/// Height and width of a window.
using Size = std::pair<std::int64_t, std::int64_t>;

/// The chain of pools that the chip runs for an even kernel equal to its stride: half of it first, then 2x2.
std::vector<Size> chain_of(Size kernel) {
  std::vector<Size> chain;
  while (kernel.first % 2 == 0 && kernel.second % 2 == 0 && kernel.first > 2 && kernel.second > 2) {
    chain.insert(chain.begin(), {2, 2});
    kernel = {kernel.first / 2, kernel.second / 2};
  }
  chain.insert(chain.begin(), kernel);
  return chain;
}

/// Sums of the unsigned view of every channel of a pixel's window; returns the cells inside the image.
template <typename T>
std::int64_t add_cells(const Window& w, void (*add_up)(const T*, T, std::int64_t, std::int32_t*), const T* in, T flip,
                       std::int64_t line, std::int64_t column, std::int32_t* sums) {
  std::fill_n(sums, w.channels, 0);
  std::int64_t cells = 0;
  for (std::int64_t kh = 0; kh < w.kernel_h; ++kh) {
    const std::int64_t y = w.row_of(line % w.out_h, kh);
    for (std::int64_t kw = 0; kw < w.kernel_w; ++kw) {
      const std::int64_t x = w.column_of(column, kw);
      if (!w.inside(y, x)) continue;
      add_up(in + ((line / w.out_h * w.in_h + y) * w.in_w + x) * w.channels, flip, w.channels, sums);
      ++cells;
    }
  }
  return cells;
}

/// Means of whole sums in one stage: done(sum of the unsigned view, cells inside) gives the stored result, unsigned
/// view.
template <typename Done>
Kernel sums_kernel(const Window& window, DType in_dtype, DType out_dtype, Done done) {
  const std::int64_t channels = window.channels;
  Kernel kernel;
  kernel.lane_scratch_bytes = static_cast<std::size_t>(channels) * sizeof(std::int32_t);
  kernel.run = [=](const KernelCall& call) {
    const kernels::FixedLoops& loops = kernels::fixed_loops();
    constexpr std::int64_t kGrain = 1 << 15;  // cells that are worth a hand-over to another thread
    const std::int64_t grain = kGrain / (window.out_w * window.cells() * channels + 1) + 1;
    for_parts(call, window.n * window.out_h, grain, [&](std::int64_t begin, std::int64_t end, std::byte* lane) {
      auto* sums = reinterpret_cast<std::int32_t*>(lane);
      for (std::int64_t line = begin; line < end; ++line) {
        for (std::int64_t column = 0; column < window.out_w; ++column) {
          const std::int64_t first = (line * window.out_w + column) * channels;
          const std::int64_t cells =
              size_of(in_dtype) == 1
                  ? add_cells<std::uint8_t>(window, loops.sum_u8, call.in<std::uint8_t>(0),
                                            in_dtype == DType::kI8 ? 128 : 0, line, column, sums)
                  : add_cells<std::uint16_t>(window, loops.sum_u16, call.in<std::uint16_t>(0),
                                             in_dtype == DType::kI16 ? 32768 : 0, line, column, sums);
          for (std::int64_t c = 0; c < channels; ++c) {
            kernels::store(call.results[0], out_dtype, first + c, done(std::int64_t{sums[c]}, cells));
          }
        }
      }
    });
  };
  return kernel;
}

/// A mean with stride 1 as a convolution with one channel's constants.
Result<Kernel> convolution_kernel(const KernelRequest& request, const Window& window, const Grid& from) {
  const TensorType& in = request.node.type(0);
  const TensorType& out = *request.results[0];
  const std::int64_t weight = from.wide() ? 32 : 128;
  const std::int64_t area = window.kernel_h * window.kernel_w;
  const auto scale = static_cast<float>(1.0 / static_cast<double>(weight * area));
  const kernels::WeightScales weights{{scale}};
  const std::int64_t weight_sum = weight * area;
  HTPIPE_TRY(const auto requant,
             kernels::ConvRequant::make(
                 {in, weights, out, {}, {&weight_sum, 1}, 0, 1, kernels::ConvForm::kStandard, request.htp_version}));
  const std::int64_t centre = requant.uncentred() ? 0 : from.zero;
  return sums_kernel(window, in.dtype, out.dtype, [=, offset = from.offset](std::int64_t sum, std::int64_t cells) {
    // Padding has the zero point.
    return requant.apply(weight * (sum - cells * centre + (area - cells) * (from.zero - centre)), 0) + offset;
  });
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const Window window, pool_window(node));
  HTPIPE_CHECK_OK(require_no_dilation(node));
  if (!is_nhwc(node.attributes)) return fail(Code::kNoFixedRule, "only channel-last data has an integer rule");
  HTPIPE_TRY(const Grid from, Grid::of(node.type(0)));
  HTPIPE_TRY(const Grid to, Grid::of(*request.results[0]));
  const bool count_padding = node.attributes.flag("count_pad_for_edges");
  HTPIPE_TRY(const MeanPlan plan, plan_of(window, node.attributes, from.wide(), from.scale == to.scale));
  if (plan.form == MeanForm::kConvolution) {
    if (window.cells() > kMostCells) return fail(Code::kNoFixedRule, "more than 32768 cells in one mean");
    return convolution_kernel(request, window, from);
  }
  const DType in_dtype = node.type(0).dtype;
  const DType out_dtype = request.results[0]->dtype;
  // The order of additions shows in single precision, and a chain has stages in between.
  if (!plan.chained && plan.form != MeanForm::kFloat && window.cells() <= kMostCells) {
    const std::int64_t area = window.cells();
    return sums_kernel(window, in_dtype, out_dtype,
                       [=, mean = Mean(from, to, plan.form)](std::int64_t sum, std::int64_t cells) {
                         return mean(sum - cells * from.zero, 0, count_padding ? area : cells);
                       });
  }
  const Size size{window.kernel_h, window.kernel_w};
  const std::vector<Size> chain = plan.chained ? chain_of(size) : std::vector<Size>{size};
  Kernel kernel;
  // Two buffers of stored values for the stages of a chain. A padded window may have more outputs than inputs.
  const std::int64_t in_count = window.n * window.in_h * window.in_w * window.channels;
  const std::int64_t out_count = window.n * window.out_h * window.out_w * window.channels;
  const std::int64_t most = std::max(in_count, out_count);
  kernel.scratch_bytes = static_cast<std::size_t>(2 * most) * sizeof(std::int64_t);
  kernel.run = [=](const KernelCall& call) {
    auto* stage_in = reinterpret_cast<std::int64_t*>(call.scratch);
    std::int64_t* stage_out = stage_in + most;
    for (std::int64_t i = 0; i < in_count; ++i) stage_in[i] = kernels::load(call.operands[0], in_dtype, i);
    Window stage = window;
    Grid grid = from;
    for (const auto& [kernel_h, kernel_w] : chain) {
      if (plan.chained) {
        stage.kernel_h = stage.stride_h = kernel_h;
        stage.kernel_w = stage.stride_w = kernel_w;
        stage.out_h = stage.in_h / kernel_h;
        stage.out_w = stage.in_w / kernel_w;
      }
      const std::int64_t area = stage.kernel_h * stage.kernel_w;
      const Mean mean(grid, to, plan.form);
      const auto scale = static_cast<float>(grid.scale);
      std::int64_t sum = 0;
      float real_sum = 0;
      for_each_window(
          stage, [&] { sum = 0, real_sum = 0.0F; },
          [&](std::int64_t index) {
            const std::int64_t centred = stage_in[index] - grid.zero;
            sum += centred;
            real_sum += static_cast<float>(centred) * scale;
          },
          [&](std::int64_t index, std::int64_t cells) {
            stage_out[index] = mean(sum, real_sum, count_padding ? area : cells);
          });
      std::swap(stage_in, stage_out);
      stage.in_h = stage.out_h;
      stage.in_w = stage.out_w;
      grid = to;
    }
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
    def.infer = [](const NodeView& node) { return infer_pool(node); };
    def.float_kernel = mean_pool_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kSpatial;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.lowering = pool_lowering("PoolAvg2d", true);
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
