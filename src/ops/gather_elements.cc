// GatherElements: along one axis, the element that each index names. Source: QNN operator GatherElements.
#include <cstring>
#include <vector>

#include "kernels/strided_copy.h"
#include "ops/element.h"
#include "ops/indices.h"
#include "ops/movement.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const Shape& data = node.type(0).shape;
  HTPIPE_TRY(const std::size_t axis, axis_of(node, "axis", data.size()));
  HTPIPE_CHECK_OK(check_element_shapes(data, node.type(1).shape, axis));
  HTPIPE_CHECK_OK(check_indices(node, 1, data[axis]));
  return std::vector<TensorType>{reshaped(node, 0, node.type(1).shape)};
}

Result<Kernel> copy_kernel(const KernelRequest& request) {
  const TensorType& data = request.node.type(0);
  const TensorType& indices = request.node.type(1);
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node, "axis", data.shape.size()));
  HTPIPE_TRY(const Element zero, element_of(0, *request.results[0]));
  const std::vector<std::int64_t> strides = kernels::strides_of(data.shape);
  const std::size_t size = size_of(data.dtype);
  Kernel kernel;
  kernel.run = [=, length = data.shape[axis], shape = indices.shape, dtype = indices.dtype](const KernelCall& call) {
    const IndexReader index(call.operands[1], dtype);
    const auto* source = call.in<std::byte>(0);
    auto* target = call.out<std::byte>(0);
    for_each_element(shape, strides, axis, [&](std::int64_t i, std::int64_t base) {
      const std::int64_t at = position_of(index[i], length);
      const std::byte* from =
          at < 0 ? zero.data() : source + static_cast<std::size_t>(base + at * strides[axis]) * size;
      std::memcpy(target + static_cast<std::size_t>(i) * size, from, size);
    });
  };
  return kernel;
}

}  // namespace

const OpDef& gather_elements() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "GatherElements";
    def.doc = "Along one axis, the element that each index names.";
    def.operands = {{"input"}, {"indices"}};
    def.attributes = {{"axis", std::int64_t{0}, false, "axis that the indices count along"}};
    def.infer = infer;
    def.float_kernel = copy_kernel;
    def.fixed_kernel = on_stored(copy_kernel);
    def.any_dtype = true;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = {"GatherElements", {{"axis", "axis", ParamKind::kU32}}, check_lowered_indices};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
