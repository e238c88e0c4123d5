// GatherNd: slices picked by positions that stand along the last axis of the indices. Source: QNN operator GatherNd.
#include <fmt/core.h>

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
  const Shape& indices = node.type(1).shape;
  const std::int64_t batch_dims = node.attributes.integer("batch_dims");
  const auto rank = static_cast<std::int64_t>(data.size());
  const auto index_rank = static_cast<std::int64_t>(indices.size());
  if (batch_dims < 0 || batch_dims >= index_rank || batch_dims > rank || indices.back() > rank - batch_dims) {
    return fail(Code::kShapeMismatch,
                fmt::format("positions {} in {} with {} batch axes", to_string(indices), to_string(data), batch_dims));
  }
  const auto first = static_cast<std::size_t>(batch_dims);
  for (std::size_t axis = 0; axis < first; ++axis) {
    if (data[axis] == indices[axis]) continue;
    return fail(Code::kShapeMismatch, fmt::format("batch axes of {} and {}", to_string(data), to_string(indices)));
  }
  HTPIPE_CHECK_OK(check_positions(node, 1, data, first));
  Shape shape(indices.begin(), indices.end() - 1);
  shape.insert(shape.end(), data.begin() + batch_dims + indices.back(), data.end());
  return std::vector<TensorType>{reshaped(node, 0, std::move(shape))};
}

Result<Kernel> copy_kernel(const KernelRequest& request) {
  const TensorType& data = request.node.type(0);
  const TensorType& indices = request.node.type(1);
  HTPIPE_TRY(const Element zero, element_of(0, *request.results[0]));
  const auto first = static_cast<std::size_t>(request.node.attributes.integer("batch_dims"));
  const auto depth = static_cast<std::size_t>(indices.shape.back());
  const SlicePicker picker(data.shape, first, depth);
  std::int64_t batches = 1;
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < indices.shape.size(); ++i) (i < first ? batches : rows) *= indices.shape[i];
  const std::size_t size = size_of(data.dtype);
  Kernel kernel;
  kernel.run = [=, dtype = indices.dtype](const KernelCall& call) {
    const std::size_t bytes = static_cast<std::size_t>(picker.slice()) * size;
    if (bytes == 0) return;
    const IndexReader index(call.operands[1], dtype);
    auto* target = call.out<std::byte>(0);
    std::int64_t row = 0;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      for (std::int64_t i = 0; i < rows; ++i, ++row, target += bytes) {
        const std::int64_t at = picker.offset(index, row);
        if (at < 0) {
          fill(target, picker.slice(), zero, size);
        } else {
          const std::int64_t from = batch * picker.batch() + at;
          std::memcpy(target, call.in<std::byte>(0) + static_cast<std::size_t>(from) * size, bytes);
        }
      }
    }
  };
  return kernel;
}

}  // namespace

const OpDef& gather_nd() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "GatherNd";
    def.doc = "Slices picked by positions that stand along the last axis of the indices.";
    def.operands = {{"input"}, {"indices"}};
    def.attributes = {{"batch_dims", std::int64_t{0}, false, "leading axes that operand and indices share"}};
    def.infer = infer;
    def.float_kernel = copy_kernel;
    def.fixed_kernel = on_stored(copy_kernel);
    def.any_dtype = true;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = {"GatherNd", {{"batch_dims", "batch_dims", ParamKind::kU32}}, check_lowered_indices};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
