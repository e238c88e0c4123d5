// Convert: from one integer encoding to another (width, scale, zero point). Source: QNN operator Convert.
#include "kernels/fixed/elementwise.h"
#include "ops/fixed_map.h"
#include "ops/registry.h"
#include "ops/to_attribute.h"

namespace htpipe::ops {
namespace {

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(request.node.type(0)));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  if (from.wide() && !to.wide() && static_cast<float>(from.scale) >= static_cast<float>(to.scale)) {
    return fail(Code::kNoFixedRule, "from 16 to 8 bits the chip converts to larger steps only");
  }
  const std::int64_t count = request.node.type(0).count();
  Kernel kernel;
  kernel.run =
      [map = kernels::UnaryMap(kernels::convert(from, to), request.node.type(0).dtype, request.results[0]->dtype),
       count](const KernelCall& call) { run_map(map, count, call); };
  return kernel;
}

}  // namespace

const OpDef& convert() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Convert";
    def.doc = "From one integer encoding to another.";
    def.operands = {{"input"}};
    def.attributes = {to_attribute()};
    def.infer = [](const NodeView& node) { return infer_to(node, false, false); };
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kElementwise;
    def.lowering = {"Convert"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
