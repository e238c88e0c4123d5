// Dequantize: stored integers to float. Source: QNN operator Dequantize.
#include "kernels/fixed/elementwise.h"
#include "ops/registry.h"
#include "ops/to_attribute.h"

namespace htpipe::ops {
namespace {

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(request.node.type(0)));
  const DType dtype = request.node.type(0).dtype;
  const DType to = request.results[0]->dtype;
  const std::int64_t count = request.node.type(0).count();
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t q = kernels::load(call.operands[0], dtype, i);
      if (to == DType::kF16) {
        call.out<std::uint16_t>(0)[i] = kernels::dequantize_f16(q, from);
      } else {
        call.out<float>(0)[i] = kernels::dequantize(q, from);
      }
    }
  };
  return kernel;
}

}  // namespace

const OpDef& dequantize() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Dequantize";
    def.doc = "From stored integers to float.";
    def.operands = {{"input"}};
    def.attributes = {to_attribute()};
    def.infer = [](const NodeView& node) { return infer_to(node, false, true); };
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kElementwise;
    def.lowering = {"Dequantize"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
