// LayerNorm: (x - mean) / sqrt(variance + epsilon) * gamma + beta, moments over `axes`; gamma and beta have one element
// for each position along these axes. Source: QNN operator LayerNorm.
#include "ops/fixed_normalise.h"
#include "ops/normalise.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

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
    def.infer = infer_axes_norm;
    def.float_kernel = [](const KernelRequest& request) { return axes_norm_kernel(request.node, true); };
    def.fixed_kernel = fixed_kernel;
    def.lowering = {"LayerNorm", {{"epsilon", "epsilon", ParamKind::kF32}, {"axes", "axes", ParamKind::kU32List}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
