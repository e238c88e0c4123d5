// What Softmax and LogSoftmax share.
#pragma once

#include <vector>

#include "ir/op.h"

namespace htpipe::ops {

/// Attributes: axis, beta.
[[nodiscard]] std::vector<AttributeSpec> softmax_attributes();
Result<std::vector<TensorType>> infer_softmax(const NodeView& node);
/// Softmax, or its logarithm.
Result<Kernel> softmax_kernel(const KernelRequest& request, bool logarithm);
/// The same on stored integers, along the last axis. Errors: no-fixed-rule.
Result<Kernel> fixed_softmax_kernel(const KernelRequest& request, bool logarithm);
[[nodiscard]] std::vector<ParamLowering> softmax_params();

}  // namespace htpipe::ops
