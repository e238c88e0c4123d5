// IsNan: true where an element is no number. Source: QNN operator IsNan.
#include "ops/float_class.h"
#include "ops/registry.h"

namespace htpipe::ops {

const OpDef& is_nan() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "IsNan";
    def.doc = "True where an element is no number.";
    def.operands = {{"input"}};
    def.infer = infer_class;
    def.float_kernel = [](const KernelRequest& request) { return class_kernel(request, FloatClass::kNan, {}); };
    def.any_dtype = true;
    def.layout = Layout::kElementwise;
    def.lowering = {"IsNan"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
