// PoolMax2d: maximum over a 2-D window; cells outside the image do not count. Source: QNN operator PoolMax2d.
#include <algorithm>
#include <memory>

#include "kernels/fixed/elementwise.h"
#include "ops/pool.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const kernels::Window window, pool_window(request.node));
  HTPIPE_CHECK_OK(require_no_dilation(request.node));
  if (!is_nhwc(request.node.attributes)) return fail(Code::kNoFixedRule, "only channel-last data has an integer rule");
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(request.node.type(0)));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  const DType in_dtype = request.node.type(0).dtype;
  const DType out_dtype = request.results[0]->dtype;
  // With another scale the chip takes the maximum first and rescales it by a table.
  const kernels::Unary rescale = from == to ? kernels::Unary([](std::int64_t q) { return q; })
                                            : kernels::table([](double x) { return x; }, from, to);
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    std::int64_t best = 0;
    for_each_window(
        window, [&] { best = 0; },
        [&](std::int64_t index) { best = std::max(best, kernels::load(call.operands[0], in_dtype, index)); },
        [&](std::int64_t index, std::int64_t) { kernels::store(call.results[0], out_dtype, index, rescale(best)); });
  };
  return kernel;
}

}  // namespace

const OpDef& pool_max2d() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "PoolMax2d";
    def.doc = "Maximum over a 2-D window.";
    def.operands = {{"input"}};
    def.attributes = pool_attributes();
    def.infer = [](const NodeView& node) { return infer_pool(node); };
    def.float_kernel = max_pool_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kSpatial;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = pool_lowering("PoolMax2d", false);
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
