// LogSoftmax: the logarithm of Softmax, computed without going through it. Source: QNN operator LogSoftmax.
#include "ops/registry.h"
#include "ops/softmax.h"

namespace htpipe::ops {
namespace {

Result<Kernel> float_kernel(const KernelRequest& request) { return softmax_kernel(request, true); }
Result<Kernel> fixed_kernel(const KernelRequest& request) { return fixed_softmax_kernel(request, true); }

}  // namespace

const OpDef& log_softmax() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "LogSoftmax";
    def.doc = "Logarithm of Softmax.";
    def.operands = {{"input"}};
    def.attributes = softmax_attributes();
    def.infer = infer_softmax;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kAxis;
    def.lowering = {"LogSoftmax", softmax_params()};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
