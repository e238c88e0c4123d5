// GroupNorm: groups of neighbouring channels of every image normalised together; then scale and shift per channel.
// Source: QNN operator GroupNorm.
#include <fmt/core.h>

#include "ops/fixed_normalise.h"
#include "ops/normalise.h"
#include "ops/registry.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_CHECK_OK(check_real(node, 0));
  HTPIPE_CHECK_OK(check_epsilon(node));
  HTPIPE_TRY(const ChannelSizes sizes, channel_sizes(node, 2));
  const std::int64_t group = node.attributes.integer("group");
  if (group < 1 || sizes.channels % group != 0) {
    return fail(Code::kUnsupportedForm, fmt::format("{} groups of {} channels", group, sizes.channels));
  }
  HTPIPE_CHECK_OK(check_gamma_beta(node, sizes.channels));
  return same_as_input(node);
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const ChannelSizes sizes, channel_sizes(request.node, 2));
  return channel_norm_kernel(request, sizes, request.node.attributes.integer("group"));
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const ChannelSizes sizes, channel_sizes(request.node, 2));
  return fixed_channel_norm_kernel(request, sizes, request.node.attributes.integer("group"));
}

}  // namespace

const OpDef& group_norm() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "GroupNorm";
    def.doc = "Normalises groups of channels of every image; then scale and shift per channel.";
    def.operands = {{"input"}, {"gamma", Role::kWeight, true}, {"beta", Role::kBias, true}};
    def.attributes = {layout_attribute(),
                      {"group", std::int64_t{1}, true, "number of groups"},
                      {"epsilon", 1e-5F, false, "added to the variance"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kSpatial;
    def.lowering = {"GroupNorm", {{"epsilon", "epsilon", ParamKind::kF32}, {"group", "group", ParamKind::kU32}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
