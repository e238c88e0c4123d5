// LayerNorm: (x - mean) / sqrt(variance + epsilon) * gamma + beta, moments over `axes`; gamma and beta have one element
// for each position along these axes. Source: QNN operator LayerNorm.
#include <cmath>

#include "ops/fixed_normalise.h"
#include "ops/normalise.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_CHECK_OK(check_real(node, 0));
  HTPIPE_CHECK_OK(check_epsilon(node));
  HTPIPE_TRY(const std::vector<bool> inside, axis_set(node));
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < inside.size(); ++axis) count *= inside[axis] ? node.type(0).shape[axis] : 1;
  HTPIPE_CHECK_OK(check_gamma_beta(node, count));
  return same_as_input(node);
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const std::vector<bool> inside, axis_set(node));
  if (trailing(inside)) return norm_rows_kernel(node, inside, true);
  Kernel kernel;
  kernel.run = [groups = groups_of(node.type(0).shape, inside), has_gamma = node.has(1), has_beta = node.has(2),
                epsilon = static_cast<double>(node.attributes.real("epsilon"))](const KernelCall& call) {
    for (const std::int64_t base : groups.bases) {
      const float* in = call.in<float>(0) + base;
      float* out = call.out<float>(0) + base;
      const Moments found = moments(in, groups.members);
      const double scale = 1 / std::sqrt(found.variance + epsilon);
      for (std::size_t m = 0; m < groups.members.size(); ++m) {
        double value = (static_cast<double>(in[groups.members[m]]) - found.mean) * scale;
        if (has_gamma) value *= static_cast<double>(call.in<float>(1)[m]);
        if (has_beta) value += static_cast<double>(call.in<float>(2)[m]);
        out[groups.members[m]] = static_cast<float>(value);
      }
    }
  };
  return kernel;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  if (request.htp_version < 73 && request.node.has(1) && size_of(request.node.type(1).dtype) > 1) {
    return fail(Code::kNoFixedRule, "v68 has no LayerNorm with a 16-bit gamma");
  }
  return fixed_axes_norm_kernel(request, NormRounding::kInteger);
}

}  // namespace

const OpDef& layer_norm() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "LayerNorm";
    def.doc = "Normalises to mean 0 and variance 1 along axes; then scale and shift.";
    def.operands = {{"input"}, {"gamma", Role::kWeight, true}, {"beta", Role::kBias, true}};
    def.attributes = {{"axes", std::vector<std::int64_t>{}, true, "axes of the moments"},
                      {"epsilon", 1e-5F, false, "added to the variance"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.lowering = {"LayerNorm", {{"epsilon", "epsilon", ParamKind::kF32}, {"axes", "axes", ParamKind::kU32List}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
