// IsInf: true where an element is infinite. Source: QNN operator IsInf.
#include "ops/float_class.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<Kernel> plain_kernel(const KernelRequest& request) {
  const Attributes& attributes = request.node.attributes;
  const Signs signs = {attributes.flag("detect_negative"), attributes.flag("detect_positive")};
  return class_kernel(request, FloatClass::kInfinite, signs);
}

}  // namespace

const OpDef& is_inf() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "IsInf";
    def.doc = "True where an element is infinite.";
    def.operands = {{"input"}};
    def.attributes = {{"detect_negative", true, false, "minus infinity counts"},
                      {"detect_positive", true, false, "plus infinity counts"}};
    def.infer = infer_class;
    def.float_kernel = plain_kernel;
    def.any_dtype = true;
    def.layout = Layout::kElementwise;
    def.lowering = {"IsInf",
                    {{"detect_negative", "detect_negative", ParamKind::kBool},
                     {"detect_positive", "detect_positive", ParamKind::kBool}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
