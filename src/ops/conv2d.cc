// Conv2d: 2-D convolution with optional groups, bias and fused activation (convolution.h).
// Source: QNN operator Conv2d.
#include <memory>

#include "ops/activation.h"
#include "ops/convolution.h"
#include "ops/fixed_product.h"
#include "ops/registry.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

constexpr std::size_t kAxes = 2;

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const ConvolutionShapes shapes, convolution_shapes(node, kAxes));
  if (!is_nhwc(node.attributes)) return fail(Code::kNoFixedRule, "only channel-last data has an integer rule");
  HTPIPE_CHECK_OK(check_activation_encoding(node.attributes.text("activation"), *request.results[0]));
  HTPIPE_TRY(const Tensor weight, nhwc_weights(node, conv2d().weight_to_nhwc));
  if (weight.type().encoding && weight.type().encoding->per_block() && shapes.window.cells() > 1) {
    return fail(Code::kNoFixedRule, "the emulator computes a convolution with scales per block wrong unless it is 1x1");
  }
  const bool dilated = shapes.window.dilation_h > 1 || shapes.window.dilation_w > 1;
  const bool strided = shapes.window.stride_h > 1 || shapes.window.stride_w > 1;
  const auto form = dilated && strided ? kernels::ConvForm::kExact : kernels::ConvForm::kStandard;
  HTPIPE_TRY(const kernels::ColumnWeights columns,
             kernels::column_weights(weight.type(), weight.bytes().data(), {shapes.out_channels, 1},
                                     dilated && strided ? kernels::Excess::kKeep : kernels::Excess::kShrink));
  auto product = std::make_shared<FixedProduct>();
  HTPIPE_TRY(*product, FixedProduct::make(request, columns, shapes.patch(), shapes.out_channels, shapes.group, form));
  Kernel kernel;
  kernel.scratch_bytes = product->scratch_bytes(shapes.window);
  kernel.lane_scratch_bytes = product->lane_scratch_bytes(shapes.window);
  kernel.run = [window = shapes.window, product](const KernelCall& call) {
    product->run(window, call.operands[0], call.results[0], call);
  };
  return kernel;
}

}  // namespace

const OpDef& conv2d() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Conv2d";
    def.doc = "2-D convolution with optional groups, bias and fused activation.";
    def.operands = {{"input"}, {"weight", Role::kWeight}, {"bias", Role::kBias, true}};
    def.attributes = convolution_attributes(kAxes);
    def.infer = [](const NodeView& node) { return infer_convolution(node, kAxes); };
    def.float_kernel = [](const KernelRequest& request) { return convolution_kernel(request, kAxes); };
    def.fixed_kernel = fixed_kernel;
    def.macs = convolution_macs;
    def.layout = Layout::kSpatial;
    def.weight_channel_axis = 3;
    def.weight_to_nhwc = {2, 3, 1, 0};
    def.lowering = {"Conv2d",
                    {{"stride", "stride", ParamKind::kU32List},
                     {"pad_amount", "pad_amount", ParamKind::kU32Pairs},
                     {"dilation", "dilation", ParamKind::kU32List},
                     {"group", "group", ParamKind::kU32, {}, true}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
