// Reshape: the same elements in another shape. One dimension may be -1. Source: QNN operator Reshape.
#include <fmt/core.h>

#include <cstring>

#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  Shape shape = node.attributes.integers("shape");
  const std::int64_t count = node.type(0).count();
  std::int64_t known = 1;
  std::int64_t* open = nullptr;
  for (std::int64_t& dimension : shape) {
    if (dimension == -1 && open == nullptr) {
      open = &dimension;
    } else if (dimension < 0 || (dimension > 0 && known > (std::int64_t{1} << 40) / dimension)) {
      return fail(Code::kUnsupportedForm, fmt::format("shape {} is no shape", to_string(shape)));
    } else {
      known *= dimension;
    }
  }
  if (open != nullptr && known == 0) {
    return fail(Code::kUnsupportedForm, fmt::format("-1 in {} could be anything", to_string(shape)));
  }
  if (open != nullptr) *open = count / known;
  if (element_count(shape) != count) {
    return fail(Code::kShapeMismatch, fmt::format("{} does not reshape to {}", to_string(node.type(0).shape),
                                                  to_string(node.attributes.integers("shape"))));
  }
  return std::vector<TensorType>{{node.type(0).dtype, std::move(shape), std::nullopt}};
}

Result<Kernel> copy_kernel(const KernelRequest& request) {
  const std::size_t size = request.node.type(0).size_bytes();
  Kernel kernel;
  kernel.run = [size](const KernelCall& call) {
    if (size > 0) std::memcpy(call.results[0], call.operands[0], size);
  };
  return kernel;
}

}  // namespace

const OpDef& reshape() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Reshape";
    def.doc = "The same elements in another shape.";
    def.operands = {{"input"}};
    def.attributes = {{"shape", std::vector<std::int64_t>{}, true, "result shape; one dimension may be -1"}};
    def.infer = infer;
    def.float_kernel = copy_kernel;
    def.fixed_kernel = copy_kernel;
    def.any_dtype = true;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = {"Reshape"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
