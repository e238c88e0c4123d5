// TransposeConv2d: transposed 2-D convolution with optional groups, bias and fused activation
// (transpose_convolution.h). Source: QNN operator TransposeConv2d.
#include "ops/registry.h"
#include "ops/transpose_convolution.h"

namespace htpipe::ops {
namespace {

constexpr std::size_t kAxes = 2;

}  // namespace

const OpDef& transpose_conv2d() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "TransposeConv2d";
    def.doc = "Transposed 2-D convolution with optional groups, bias and fused activation.";
    def.operands = {{"input"}, {"weight", Role::kWeight}, {"bias", Role::kBias, true}};
    def.attributes = transpose_convolution_attributes(kAxes);
    def.infer = [](const NodeView& node) { return infer_transpose_convolution(node, kAxes); };
    def.float_kernel = [](const KernelRequest& request) { return transpose_convolution_kernel(request, kAxes); };
    def.fixed_kernel = fixed_transpose_convolution;
    def.macs = transpose_convolution_macs;
    def.layout = Layout::kSpatial;
    def.weight_channel_axis = 3;
    def.weight_to_nhwc = {2, 3, 0, 1};
    def.lowering = {"TransposeConv2d", transpose_convolution_params()};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
