// L2Norm: x / max(sqrt(sum of squares), epsilon), sum over `axes`. Source: QNN operator L2Norm.
#include <algorithm>
#include <cmath>

#include "ops/fixed_normalise.h"
#include "ops/normalise.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_CHECK_OK(check_real(node, 0));
  HTPIPE_CHECK_OK(check_epsilon(node));
  HTPIPE_CHECK_OK(axis_set(node));
  return same_as_input(node);
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const std::vector<bool> inside, axis_set(node));
  Kernel kernel;
  kernel.run = [groups = groups_of(node.type(0).shape, inside),
                epsilon = static_cast<double>(node.attributes.real("epsilon"))](const KernelCall& call) {
    for (const std::int64_t base : groups.bases) {
      const float* in = call.in<float>(0) + base;
      float* out = call.out<float>(0) + base;
      const double sum = mean_square(in, groups.members) * static_cast<double>(groups.members.size());
      const double norm = std::max(std::sqrt(sum), epsilon);
      for (const std::int64_t m : groups.members) out[m] = static_cast<float>(static_cast<double>(in[m]) / norm);
    }
  };
  return kernel;
}

}  // namespace

const OpDef& l2_norm() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "L2Norm";
    def.doc = "Divides by the Euclidean norm along axes.";
    def.operands = {{"input"}};
    def.attributes = {{"axes", std::vector<std::int64_t>{}, true, "axes of the norm"},
                      {"epsilon", 1e-12F, false, "smallest divisor"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_l2_norm_kernel;
    def.lowering = {"L2Norm", {{"axes", "axes", ParamKind::kU32List}, {"epsilon", "epsilon", ParamKind::kF32}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
