// RmsNorm: x / sqrt(mean of squares + epsilon) * gamma + beta, mean over `axes`; gamma and beta have one element for
// each position along these axes. Source: QNN operator RmsNorm (without documentation), ONNX RMSNormalization.
#include <algorithm>

#include "ops/fixed_normalise.h"
#include "ops/normalise.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  return fixed_axes_norm_kernel(request, NormRounding::kFloor);
}

/// Measured: an FP16 graph gives the same result with and without beta.
Status check_lowering(const NodeView& node) {
  if (!node.has(2) || node.type(0).encoding) return {};
  if (node.constants[2] != nullptr) {
    const std::vector<float> beta = to_floats(*node.constants[2]);
    if (std::all_of(beta.begin(), beta.end(), [](float x) { return x == 0.0F; })) return {};
  }
  return fail(Code::kUnsupportedForm, "QNN's RmsNorm ignores beta in floating point");
}

}  // namespace

const OpDef& rms_norm() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "RmsNorm";
    def.doc = "Divides by the root of the mean square along axes; then scale and shift.";
    def.operands = {{"input"}, {"gamma", Role::kWeight, true}, {"beta", Role::kBias, true}};
    def.attributes = {{"axes", std::vector<std::int64_t>{}, true, "axes of the mean"},
                      {"epsilon", 1e-5F, false, "added to the mean of squares"}};
    def.infer = infer_axes_norm;
    def.float_kernel = [](const KernelRequest& request) { return axes_norm_kernel(request.node, false); };
    def.fixed_kernel = fixed_kernel;
    def.lowering = {
        "RmsNorm", {{"epsilon", "epsilon", ParamKind::kF32}, {"axes", "axes", ParamKind::kU32List}}, check_lowering};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
