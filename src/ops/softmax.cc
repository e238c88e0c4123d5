// Softmax: exp(beta * x) over its sum along one axis. Source: QNN operator Softmax; the HTP takes the last axis only.
#include "ops/softmax.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/normalise.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<Kernel> float_kernel(const KernelRequest& request) { return softmax_kernel(request, false); }

}  // namespace

std::vector<AttributeSpec> softmax_attributes() {
  return {{"axis", std::int64_t{0}, true, "axis along which the result sums up to 1"},
          {"beta", 1.0F, false, "factor of the input"}};
}

Result<std::vector<TensorType>> infer_softmax(const NodeView& node) {
  HTPIPE_CHECK_OK(check_real(node, 0));
  HTPIPE_CHECK_OK(axis_of(node));
  const float beta = node.attributes.real("beta");
  if (!std::isfinite(beta)) return fail(Code::kUnsupportedForm, fmt::format("beta {}", beta));
  return same_as_input(node);
}

Result<Kernel> softmax_kernel(const KernelRequest& request, bool logarithm) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const std::size_t axis, axis_of(node));
  std::vector<bool> inside(node.type(0).shape.size(), false);
  inside[axis] = true;
  Kernel kernel;
  kernel.run = [groups = groups_of(node.type(0).shape, inside),
                beta = static_cast<double>(node.attributes.real("beta")), logarithm](const KernelCall& call) {
    for (const std::int64_t base : groups.bases) {
      const float* in = call.in<float>(0) + base;
      float* out = call.out<float>(0) + base;
      double largest = -std::numeric_limits<double>::infinity();
      for (const std::int64_t m : groups.members) largest = std::max(largest, beta * static_cast<double>(in[m]));
      // A group of nothing but -inf gives NaN, as in PyTorch and ONNX.
      double sum = 0;
      for (const std::int64_t m : groups.members) {
        const double power = std::exp(beta * static_cast<double>(in[m]) - largest);
        sum += power;
        if (!logarithm) out[m] = static_cast<float>(power);
      }
      const double shift = largest + std::log(sum);
      for (const std::int64_t m : groups.members) {
        out[m] = static_cast<float>(logarithm ? beta * static_cast<double>(in[m]) - shift
                                              : static_cast<double>(out[m]) / sum);
      }
    }
  };
  return kernel;
}

std::vector<ParamLowering> softmax_params() {
  return {{"axis", "axis", ParamKind::kU32}, {"beta", "beta", ParamKind::kF32, {}, true}};
}

const OpDef& softmax() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Softmax";
    def.doc = "Exponentials over their sum along one axis.";
    def.operands = {{"input"}};
    def.attributes = softmax_attributes();
    def.infer = infer_softmax;
    def.float_kernel = float_kernel;
    def.layout = Layout::kAxis;
    def.lowering = {"Softmax", softmax_params()};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
