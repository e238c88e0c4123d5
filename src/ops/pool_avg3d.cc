// PoolAvg3d: mean over a 3-D window; padding counts as zeros only with count_pad_for_edges.
// Source: QNN operator PoolAvg3d.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/fixed/elementwise.h"
#include "ops/movement.h"
#include "ops/pool.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

/// Measured on windows without padding: the mean of the stored values, halves to even. A window of one slice gives
/// something else in 8 bits.
Result<Kernel> fixed_kernel(const KernelRequest& request) {
  HTPIPE_CHECK_OK(check_same_encoding(request.node.type(0), *request.results[0]));
  HTPIPE_CHECK_OK(kernels::Grid::of(request.node.type(0)));
  HTPIPE_CHECK_OK(require_no_dilation(request.node));
  HTPIPE_TRY(const kernels::Window window, pool_window(request.node));
  const auto& pads = request.node.attributes.integers("pad_amount");
  const bool padded = std::any_of(pads.begin(), pads.end(), [](std::int64_t pad) { return pad != 0; });
  if (!is_nhwc(request.node.attributes) || padded || window.kernel_d < 2 ||
      request.node.attributes.text("rounding_mode") != "floor") {
    return fail(Code::kNoFixedRule, "a mean over a volume with padding, of one slice or rounded up");
  }
  Kernel kernel;
  kernel.scratch_bytes = static_cast<std::size_t>(window.channels) * sizeof(std::int64_t);
  kernel.run = [window, dtype = request.results[0]->dtype](const KernelCall& call) {
    auto* sums = reinterpret_cast<std::int64_t*>(call.scratch);
    const std::int64_t channels = window.channels;
    kernels::for_each_pixel(
        window, [&](std::int64_t) { std::fill_n(sums, channels, std::int64_t{0}); },
        [&](std::int64_t, std::int64_t in_pixel, std::int64_t) {
          for (std::int64_t c = 0; c < channels; ++c) {
            sums[c] += kernels::load(call.operands[0], dtype, in_pixel * channels + c);
          }
        },
        [&](std::int64_t out_pixel, std::int64_t cells) {
          for (std::int64_t c = 0; c < channels; ++c) {
            const double mean = static_cast<double>(sums[c]) / static_cast<double>(cells);
            kernels::store(call.results[0], dtype, out_pixel * channels + c,
                           static_cast<std::int64_t>(std::rint(mean)));
          }
        });
  };
  return kernel;
}

}  // namespace

const OpDef& pool_avg3d() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "PoolAvg3d";
    def.doc = "Mean over a 3-D window.";
    def.operands = {{"input"}};
    def.attributes = pool_attributes(3);
    def.attributes.push_back({"count_pad_for_edges", false, false, "padding counts as zeros"});
    def.infer = [](const NodeView& node) { return infer_pool(node, 3); };
    def.float_kernel = mean_pool_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kSpatial;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kRounded;
    def.lowering = pool_lowering("PoolAvg3d", true);
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
