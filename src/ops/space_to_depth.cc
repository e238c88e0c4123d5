// SpaceToDepth: blocks of pixels become groups of channels; mode crd is PyTorch's pixel_unshuffle.
// Source: QNN operator SpaceToDepth.
#include "ops/block_space.h"
#include "ops/movement.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<Kernel> copy_kernel(const KernelRequest& request) { return block_kernel(request, false); }

}  // namespace

const OpDef& space_to_depth() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "SpaceToDepth";
    def.doc = "Blocks of pixels become groups of channels.";
    def.operands = {{"input"}};
    def.attributes = block_attributes();
    def.infer = [](const NodeView& node) { return infer_blocks(node, false); };
    def.float_kernel = copy_kernel;
    def.fixed_kernel = on_stored(copy_kernel);
    def.any_dtype = true;
    def.layout = Layout::kSpatial;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = {"SpaceToDepth", block_params()};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
