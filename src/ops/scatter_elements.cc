// ScatterElements: a copy of the data in which updates stand where indices say, along one axis.
// Source: QNN operator ScatterElements; the reduction min is ours.
#include <fmt/core.h>

#include <cstring>
#include <vector>

#include "kernels/strided_copy.h"
#include "ops/indices.h"
#include "ops/movement.h"
#include "ops/registry.h"
#include "ops/scatter.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const Shape& data = node.type(0).shape;
  HTPIPE_TRY(const std::size_t axis, axis_of(node, "axis", data.size()));
  HTPIPE_CHECK_OK(check_element_shapes(data, node.type(1).shape, axis));
  HTPIPE_CHECK_OK(check_indices(node, 1, data[axis]));
  if (node.type(1).shape != node.type(2).shape) {
    return fail(Code::kShapeMismatch,
                fmt::format("indices {} and updates {}", to_string(node.type(1).shape), to_string(node.type(2).shape)));
  }
  return infer_scatter(node);
}

Result<Kernel> plain_kernel(const KernelRequest& request) {
  const TensorType& data = request.node.type(0);
  const TensorType& indices = request.node.type(1);
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node, "axis", data.shape.size()));
  HTPIPE_TRY(const Combine combine, combine_of(request.node.attributes.text("reduction"), data.dtype));
  const std::vector<std::int64_t> strides = kernels::strides_of(data.shape);
  const std::size_t size = size_of(data.dtype);
  Kernel kernel;
  kernel.run = [=, bytes = data.size_bytes(), length = data.shape[axis], shape = indices.shape,
                dtype = indices.dtype](const KernelCall& call) {
    const IndexReader index(call.operands[1], dtype);
    auto* target = call.out<std::byte>(0);
    if (bytes > 0) std::memcpy(target, call.operands[0], bytes);
    for_each_element(shape, strides, axis, [&](std::int64_t i, std::int64_t base) {
      const std::int64_t at = position_of(index[i], length);
      if (at < 0) return;
      combine(target + static_cast<std::size_t>(base + at * strides[axis]) * size,
              call.in<std::byte>(2) + static_cast<std::size_t>(i) * size, 1);
    });
  };
  return kernel;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  HTPIPE_CHECK_OK(check_scatter_encodings(request));
  return plain_kernel(request);
}

}  // namespace

const OpDef& scatter_elements() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "ScatterElements";
    def.doc = "A copy of the data in which updates stand where indices say, along one axis.";
    def.operands = {{"input"}, {"indices"}, {"updates"}};
    def.attributes = {{"axis", std::int64_t{0}, false, "axis that the indices count along"}, reduction_attribute()};
    def.infer = infer;
    def.float_kernel = plain_kernel;
    def.fixed_kernel = fixed_kernel;
    def.any_dtype = true;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kRounded;
    def.lowering = {
        "ScatterElements",
        {{"axis", "axis", ParamKind::kU32},
         {"reduction", "reduction", ParamKind::kEnum, {{"none", 0}, {"add", 1}, {"mul", 2}, {"max", 3}}, true}},
        check_lowered_indices};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
