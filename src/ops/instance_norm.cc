// InstanceNorm: every channel of every image normalised over its pixels; then scale and shift per channel.
// Source: QNN operator InstanceNorm (mode MU_SIGMA, region ACROSS_SPATIAL).
#include "ops/fixed_normalise.h"
#include "ops/normalise.h"
#include "ops/registry.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_CHECK_OK(check_real(node, 0));
  HTPIPE_CHECK_OK(check_epsilon(node));
  HTPIPE_TRY(const ChannelSizes sizes, channel_sizes(node, 3));
  HTPIPE_CHECK_OK(check_gamma_beta(node, sizes.channels));
  return same_as_input(node);
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const ChannelSizes sizes, channel_sizes(request.node, 3));
  if (sizes.channels == 0) return Kernel{[](const KernelCall&) {}};
  return channel_norm_kernel(request, sizes, sizes.channels);
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const ChannelSizes sizes, channel_sizes(request.node, 3));
  return fixed_channel_norm_kernel(request, sizes, sizes.channels);
}

}  // namespace

const OpDef& instance_norm() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "InstanceNorm";
    def.doc = "Normalises every channel of every image over its pixels; then scale and shift per channel.";
    def.operands = {{"input"}, {"gamma", Role::kWeight, true}, {"beta", Role::kBias, true}};
    def.attributes = {layout_attribute(), {"epsilon", 1e-5F, false, "added to the variance"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kSpatial;
    def.lowering = {"InstanceNorm", {{"epsilon", "epsilon", ParamKind::kF32}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
