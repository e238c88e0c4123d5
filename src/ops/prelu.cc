// Prelu: negative elements times a coefficient. The coefficients broadcast to the input as numpy does it: one per
// channel has the shape [channels] in channel-last data and [channels, 1, 1] in channel-first data.
// Source: QNN operator Prelu.
#include <fmt/core.h>

#include "ops/broadcast.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const TensorType& input = node.type(0);
  const TensorType& coefficients = node.type(1);
  if (input.dtype != coefficients.dtype) {
    return fail(Code::kDtypeMismatch, fmt::format("{} and {}", name_of(input.dtype), name_of(coefficients.dtype)));
  }
  if (!is_float(input.dtype) && !input.encoding) {
    return fail(Code::kUnsupportedForm, fmt::format("no Prelu of {}", name_of(input.dtype)));
  }
  HTPIPE_TRY(const Shape shape, broadcast(input.shape, coefficients.shape));
  if (shape != input.shape) {
    return fail(Code::kShapeMismatch, fmt::format("coefficients {} are too large for {}", to_string(coefficients.shape),
                                                  to_string(input.shape)));
  }
  return std::vector<TensorType>{{input.dtype, input.shape, std::nullopt}};
}

Result<Kernel> plain_kernel(const KernelRequest& request) {
  const TensorType& input = request.node.type(0);
  if (input.dtype != DType::kF32) {
    return fail(Code::kUnsupportedForm, fmt::format("no Prelu of {}", name_of(input.dtype)));
  }
  Kernel kernel;
  kernel.run = [plan =
                    plan_broadcast({&input.shape, &request.node.type(1).shape}, input.shape)](const KernelCall& call) {
    map_pairs(plan, call.in<float>(0), call.in<float>(1), call.out<float>(0), [](float x, float slope) {
      const float below = x * slope;
      return x > 0.0F ? x : below;
    });
  };
  return kernel;
}

}  // namespace

const OpDef& prelu() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Prelu";
    def.doc = "Negative elements times a coefficient.";
    def.operands = {{"input"}, {"coefficients"}};
    def.infer = infer;
    def.float_kernel = plain_kernel;
    def.layout = Layout::kElementwise;
    def.lowering = {"Prelu"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
