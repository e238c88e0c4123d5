// ScatterNd: a copy of the data in which updates stand at positions that are given along the last axis of the indices.
// Source: QNN operator ScatterNd; the reductions max and min are ours.
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
  const Shape& indices = node.type(1).shape;
  if (indices.empty() || indices.back() > static_cast<std::int64_t>(data.size())) {
    return fail(Code::kShapeMismatch, fmt::format("positions {} in {}", to_string(indices), to_string(data)));
  }
  HTPIPE_CHECK_OK(check_positions(node, 1, data, 0));
  Shape updates(indices.begin(), indices.end() - 1);
  updates.insert(updates.end(), data.begin() + indices.back(), data.end());
  if (updates != node.type(2).shape) {
    return fail(Code::kShapeMismatch,
                fmt::format("updates are {}, need {}", to_string(node.type(2).shape), to_string(updates)));
  }
  return infer_scatter(node);
}

Result<Kernel> plain_kernel(const KernelRequest& request) {
  const TensorType& data = request.node.type(0);
  const TensorType& indices = request.node.type(1);
  HTPIPE_TRY(const Combine combine, combine_of(request.node.attributes.text("reduction"), data.dtype));
  const SlicePicker picker(data.shape, 0, static_cast<std::size_t>(indices.shape.back()));
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < indices.shape.size(); ++i) rows *= indices.shape[i];
  const std::size_t size = size_of(data.dtype);
  Kernel kernel;
  kernel.run = [=, bytes = data.size_bytes(), dtype = indices.dtype](const KernelCall& call) {
    const IndexReader index(call.operands[1], dtype);
    auto* target = call.out<std::byte>(0);
    if (bytes == 0) return;
    std::memcpy(target, call.operands[0], bytes);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t at = picker.offset(index, row);
      if (at < 0) continue;
      combine(target + static_cast<std::size_t>(at) * size,
              call.in<std::byte>(2) + static_cast<std::size_t>(row * picker.slice()) * size, picker.slice());
    }
  };
  return kernel;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  HTPIPE_CHECK_OK(check_scatter_encodings(request));
  return plain_kernel(request);
}

}  // namespace

const OpDef& scatter_nd() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "ScatterNd";
    def.doc = "A copy of the data in which updates stand at positions.";
    def.operands = {{"input"}, {"indices"}, {"updates"}};
    def.attributes = {reduction_attribute()};
    def.infer = infer;
    def.float_kernel = plain_kernel;
    def.fixed_kernel = fixed_kernel;
    def.any_dtype = true;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kRounded;
    def.lowering = {"ScatterNd",
                    {{"reduction", "reduction", ParamKind::kEnum, {{"none", 0}, {"add", 1}, {"mul", 2}}, true}},
                    check_lowered_indices};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
