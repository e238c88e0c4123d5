// Transpose: permuted axes; result axis i is operand axis perm[i]. Source: QNN operator Transpose.
#include <fmt/core.h>

#include <vector>

#include "ops/copy_call.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const auto& perm = node.attributes.integers("perm");
  const Shape& shape = node.type(0).shape;
  std::vector<bool> seen(shape.size(), false);
  bool valid = perm.size() == shape.size();
  for (std::size_t i = 0; valid && i < perm.size(); ++i) {
    valid =
        perm[i] >= 0 && perm[i] < static_cast<std::int64_t>(shape.size()) && !seen[static_cast<std::size_t>(perm[i])];
    if (valid) seen[static_cast<std::size_t>(perm[i])] = true;
  }
  if (!valid) {
    return fail(Code::kUnsupportedForm, fmt::format("perm {} does not permute {}", to_string(perm), to_string(shape)));
  }
  return std::vector<TensorType>{{node.type(0).dtype, permute(shape, perm), std::nullopt}};
}

Result<Kernel> copy_kernel(const KernelRequest& request) {
  const auto& perm = request.node.attributes.integers("perm");
  const TensorType& in = request.node.type(0);
  const std::vector<std::int64_t> from = kernels::strides_of(in.shape);
  const std::vector<std::int64_t> to = kernels::strides_of(request.results[0]->shape);
  std::vector<kernels::StridedCopy::Axis> axes;
  for (std::size_t i = 0; i < perm.size(); ++i) {
    axes.push_back({request.results[0]->shape[i], from[static_cast<std::size_t>(perm[i])], to[i]});
  }
  Kernel kernel;
  kernel.run = [copy = kernels::StridedCopy(axes, size_of(in.dtype))](const KernelCall& call) {
    share_copy(call, copy, call.operands[0], call.results[0]);
  };
  return kernel;
}

}  // namespace

const OpDef& transpose() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Transpose";
    def.doc = "Permuted axes.";
    def.operands = {{"input"}};
    def.attributes = {{"perm", std::vector<std::int64_t>{}, true, "result axis i is operand axis perm[i]"}};
    def.infer = infer;
    def.float_kernel = copy_kernel;
    def.fixed_kernel = copy_kernel;
    def.any_dtype = true;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = {"Transpose", {{"perm", "perm", ParamKind::kU32List}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
