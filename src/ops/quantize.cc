// Quantize: float to stored integers. Source: QNN operator Quantize; rounding as the chip's (docs/htp-arithmetic.md).
#include "kernels/fixed/elementwise.h"
#include "ops/registry.h"
#include "ops/to_attribute.h"

namespace htpipe::ops {
namespace {

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  const DType from = request.node.type(0).dtype;
  const DType dtype = request.results[0]->dtype;
  const std::int64_t count = request.node.type(0).count();
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float x = from == DType::kF16 ? from_f16(call.in<std::uint16_t>(0)[i]) : call.in<float>(0)[i];
      kernels::store(call.results[0], dtype, i, kernels::quantize(x, to));
    }
  };
  return kernel;
}

}  // namespace

const OpDef& quantize() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Quantize";
    def.doc = "From float to stored integers.";
    def.operands = {{"input"}};
    def.attributes = {to_attribute()};
    def.infer = [](const NodeView& node) { return infer_to(node, true, false); };
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kElementwise;
    def.lowering = {"Quantize"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
