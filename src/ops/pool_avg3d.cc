// PoolAvg3d: mean over a 3-D window; padding counts as zeros only with count_pad_for_edges.
// Source: QNN operator PoolAvg3d.
#include "ops/pool.h"
#include "ops/registry.h"

namespace htpipe::ops {

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
    def.layout = Layout::kSpatial;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kRounded;
    def.lowering = pool_lowering("PoolAvg3d", true);
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
