// Gather: slices of an axis picked by indices. Source: QNN operator Gather.
#include <cstring>
#include <vector>

#include "ops/element.h"
#include "ops/indices.h"
#include "ops/movement.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const Shape& data = node.type(0).shape;
  const Shape& indices = node.type(1).shape;
  HTPIPE_TRY(const std::size_t axis, axis_of(node, "axis", data.size()));
  HTPIPE_CHECK_OK(check_indices(node, 1, data[axis]));
  const auto at = data.begin() + static_cast<std::ptrdiff_t>(axis);
  Shape shape(data.begin(), at);
  shape.insert(shape.end(), indices.begin(), indices.end());
  shape.insert(shape.end(), at + 1, data.end());
  return std::vector<TensorType>{reshaped(node, 0, std::move(shape))};
}

Result<Kernel> copy_kernel(const KernelRequest& request) {
  const TensorType& data = request.node.type(0);
  const TensorType& indices = request.node.type(1);
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node, "axis", data.shape.size()));
  HTPIPE_TRY(const Element zero, element_of(0, *request.results[0]));
  const AxisSplit split = split_at(data.shape, axis);
  const std::size_t size = size_of(data.dtype);
  Kernel kernel;
  kernel.run = [=, count = indices.count(), dtype = indices.dtype](const KernelCall& call) {
    const std::size_t bytes = static_cast<std::size_t>(split.inner) * size;
    if (bytes == 0) return;
    const IndexReader index(call.operands[1], dtype);
    const auto* source = static_cast<const std::byte*>(call.operands[0]);
    auto* target = static_cast<std::byte*>(call.results[0]);
    for (std::int64_t outer = 0; outer < split.outer; ++outer) {
      for (std::int64_t i = 0; i < count; ++i, target += bytes) {
        const std::int64_t at = position_of(index[i], split.size);
        if (at < 0) {
          fill(target, split.inner, zero, size);
        } else {
          std::memcpy(target, source + static_cast<std::size_t>(outer * split.size + at) * bytes, bytes);
        }
      }
    }
  };
  return kernel;
}

}  // namespace

const OpDef& gather() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Gather";
    def.doc = "Slices of an axis picked by indices.";
    def.operands = {{"input"}, {"indices"}};
    def.attributes = {{"axis", std::int64_t{0}, true, "axis that the indices count along"}};
    def.infer = infer;
    def.float_kernel = copy_kernel;
    def.fixed_kernel = on_stored(copy_kernel);
    def.any_dtype = true;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = {"Gather", {{"axis", "axis", ParamKind::kI32}}, check_lowered_indices};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
