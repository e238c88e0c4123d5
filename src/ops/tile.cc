// Tile: the operand repeated along each axis. Source: QNN operator Tile.
#include <fmt/core.h>

#include <vector>

#include "kernels/strided_copy.h"
#include "ops/movement.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

using IntList = std::vector<std::int64_t>;

constexpr std::int64_t kMaxSize = std::int64_t{1} << 40;  ///< of an axis: products of what passes stay in range

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const IntList& multiples = node.attributes.integers("multiples");
  Shape shape = node.type(0).shape;
  if (multiples.size() != shape.size()) {
    return fail(Code::kUnsupportedForm, fmt::format("multiples {} of {}", to_string(multiples), to_string(shape)));
  }
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    if (multiples[axis] < 0 || (shape[axis] > 0 && multiples[axis] > kMaxSize / shape[axis])) {
      return fail(Code::kUnsupportedForm,
                  fmt::format("multiples {} of {}", to_string(multiples), to_string(node.type(0).shape)));
    }
    shape[axis] *= multiples[axis];
  }
  return std::vector<TensorType>{reshaped(node, 0, std::move(shape))};
}

Result<Kernel> copy_kernel(const KernelRequest& request) {
  const TensorType& in = request.node.type(0);
  const IntList& multiples = request.node.attributes.integers("multiples");
  const IntList from = kernels::strides_of(in.shape);
  const IntList to = kernels::strides_of(request.results[0]->shape);
  std::vector<kernels::StridedCopy::Axis> axes;
  for (std::size_t axis = 0; axis < multiples.size(); ++axis) {
    axes.push_back({multiples[axis], 0, in.shape[axis] * to[axis]});
    axes.push_back({in.shape[axis], from[axis], to[axis]});
  }
  Kernel kernel;
  kernel.run = [copy = kernels::StridedCopy(axes, size_of(in.dtype))](const KernelCall& call) {
    copy.run(call.operands[0], call.results[0]);
  };
  return kernel;
}

}  // namespace

const OpDef& tile() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Tile";
    def.doc = "The operand repeated along each axis.";
    def.operands = {{"input"}};
    def.attributes = {{"multiples", IntList{}, true, "how often along each axis"}};
    def.infer = infer;
    def.float_kernel = copy_kernel;
    def.fixed_kernel = on_stored(copy_kernel);
    def.any_dtype = true;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = {"Tile", {{"multiples", "multiples", ParamKind::kU32List}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
