// Conv3d: 3-D convolution with optional groups, bias and fused activation (convolution.h).
// Source: QNN operator Conv3d.
#include "ops/convolution.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

constexpr std::size_t kAxes = 3;

}  // namespace

const OpDef& conv3d() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Conv3d";
    def.doc = "3-D convolution with optional groups, bias and fused activation.";
    def.operands = {{"input"}, {"weight", Role::kWeight}, {"bias", Role::kBias, true}};
    def.attributes = convolution_attributes(kAxes);
    def.infer = [](const NodeView& node) { return infer_convolution(node, kAxes); };
    def.float_kernel = [](const KernelRequest& request) { return convolution_kernel(request, kAxes); };
    def.macs = convolution_macs;
    def.layout = Layout::kSpatial;
    def.weight_channel_axis = 4;
    def.weight_to_nhwc = {2, 3, 4, 1, 0};
    def.lowering = {"Conv3d",
                    {{"stride", "stride", ParamKind::kU32List},
                     {"pad_amount", "pad_amount", ParamKind::kU32Pairs},
                     {"dilation", "dilation", ParamKind::kU32List},
                     {"group", "group", ParamKind::kU32, {}, true}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
