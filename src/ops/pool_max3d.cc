// PoolMax3d: maximum over a 3-D window; cells outside the image do not count.
// Source: QNN operator PoolMax3d.
#include "ops/pool.h"
#include "ops/registry.h"

namespace htpipe::ops {

const OpDef& pool_max3d() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "PoolMax3d";
    def.doc = "Maximum over a 3-D window.";
    def.operands = {{"input"}};
    def.attributes = pool_attributes(3);
    def.infer = [](const NodeView& node) { return infer_pool(node, 3); };
    def.float_kernel = max_pool_kernel;
    def.layout = Layout::kSpatial;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = pool_lowering("PoolMax3d", false);
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
