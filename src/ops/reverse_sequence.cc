// ReverseSequence: the first elements of every sequence in reverse order, the rest as it is. Lengths that are known only
// when it runs are cut to the length of the axis. Ours; source: ONNX operator ReverseSequence.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "kernels/strided_copy.h"
#include "ops/indices.h"
#include "ops/movement.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const Shape& shape = node.type(0).shape;
  HTPIPE_TRY(const std::size_t batch, axis_of(node, "batch_axis", shape.size()));
  HTPIPE_TRY(const std::size_t time, axis_of(node, "time_axis", shape.size()));
  const TensorType& lengths = node.type(1);
  if (batch == time) return fail(Code::kUnsupportedForm, "batch_axis and time_axis are the same");
  if ((lengths.dtype != DType::kI64 && lengths.dtype != DType::kI32) || lengths.encoding) {
    return fail(Code::kDtypeMismatch, fmt::format("lengths are i32 or i64, not {}", to_string(lengths)));
  }
  if (lengths.shape != Shape{shape[batch]}) {
    return fail(Code::kShapeMismatch,
                fmt::format("lengths {} for {} sequences", to_string(lengths.shape), shape[batch]));
  }
  if (const Tensor* constant = node.constants[1]; constant != nullptr) {
    const IndexReader length(constant->bytes().data(), lengths.dtype);
    for (std::int64_t i = 0; i < shape[batch]; ++i) {
      if (length[i] < 0 || length[i] > shape[time]) {
        return fail(Code::kUnsupportedForm, fmt::format("length {} of {}", length[i], shape[time]));
      }
    }
  }
  return std::vector<TensorType>{reshaped(node, 0, shape)};
}

Result<Kernel> copy_kernel(const KernelRequest& request) {
  const TensorType& in = request.node.type(0);
  HTPIPE_TRY(const std::size_t batch, axis_of(request.node, "batch_axis", in.shape.size()));
  HTPIPE_TRY(const std::size_t time, axis_of(request.node, "time_axis", in.shape.size()));
  const std::vector<std::int64_t> strides = kernels::strides_of(in.shape);
  const std::size_t size = size_of(in.dtype);
  std::vector<kernels::StridedCopy::Axis> axes;  // of one step of one sequence
  for (std::size_t axis = 0; axis < in.shape.size(); ++axis) {
    if (axis != batch && axis != time) axes.push_back({in.shape[axis], strides[axis], strides[axis]});
  }
  Kernel kernel;
  kernel.run = [copy = kernels::StridedCopy(axes, size), sequences = in.shape[batch], steps = in.shape[time],
                batch_stride = strides[batch] * static_cast<std::int64_t>(size),
                time_stride = strides[time] * static_cast<std::int64_t>(size),
                dtype = request.node.type(1).dtype](const KernelCall& call) {
    const IndexReader lengths(call.operands[1], dtype);
    for (std::int64_t b = 0; b < sequences; ++b) {
      const std::int64_t length = std::clamp<std::int64_t>(lengths[b], 0, steps);
      for (std::int64_t t = 0; t < steps; ++t) {
        const std::int64_t from = t < length ? length - 1 - t : t;
        copy.run(call.in<std::byte>(0) + b * batch_stride + from * time_stride,
                 call.out<std::byte>(0) + b * batch_stride + t * time_stride);
      }
    }
  };
  return kernel;
}

}  // namespace

const OpDef& reverse_sequence() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "ReverseSequence";
    def.doc = "The first elements of every sequence in reverse order.";
    def.operands = {{"input"}, {"lengths"}};
    def.attributes = {{"batch_axis", std::int64_t{1}, false, "axis that counts sequences"},
                      {"time_axis", std::int64_t{0}, false, "axis that is reversed"}};
    def.infer = infer;
    def.float_kernel = copy_kernel;
    def.any_dtype = true;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
