// DepthToSpace: groups of channels become blocks of pixels; mode crd is PyTorch's pixel_shuffle.
// Source: QNN operator DepthToSpace.
#include "ops/block_space.h"
#include "ops/movement.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<Kernel> copy_kernel(const KernelRequest& request) { return block_kernel(request, true); }

}  // namespace

const OpDef& depth_to_space() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "DepthToSpace";
    def.doc = "Groups of channels become blocks of pixels.";
    def.operands = {{"input"}};
    def.attributes = block_attributes();
    def.infer = [](const NodeView& node) { return infer_blocks(node, true); };
    def.float_kernel = copy_kernel;
    def.fixed_kernel = on_stored(copy_kernel);
    def.any_dtype = true;
    def.layout = Layout::kSpatial;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = {"DepthToSpace", block_params()};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
