// StridedSlice: every step-th element between begin and end along each axis. Source: QNN operator StridedSlice.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/strided_copy.h"
#include "ops/movement.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

using IntList = std::vector<std::int64_t>;

constexpr std::int64_t kLongest = std::numeric_limits<std::int64_t>::max();

/// Elements that are taken along one axis, or -1 when begin, end and step do not fit an axis of `size`.
std::int64_t taken(std::int64_t begin, std::int64_t end, std::int64_t step, std::int64_t size) {
  if (step > 0) {
    if (begin < 0 || begin > size || end < 0 || end > size) return -1;
    return end > begin ? (end - begin - 1) / step + 1 : 0;
  }
  if (step == 0 || begin < -1 || begin >= std::max<std::int64_t>(size, 1) || end < -1 || end > size) return -1;
  return begin > end && size > 0 ? (begin - end - 1) / -std::max(step, -kLongest) + 1 : 0;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const IntList& begin = node.attributes.integers("begin");
  const IntList& end = node.attributes.integers("end");
  const IntList& strides = node.attributes.integers("strides");
  Shape shape = node.type(0).shape;
  if (begin.size() != shape.size() || end.size() != shape.size() || strides.size() != shape.size()) {
    return fail(Code::kUnsupportedForm,
                fmt::format("begin, end and strides need a number for each axis of {}", to_string(shape)));
  }
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::int64_t count = taken(begin[axis], end[axis], strides[axis], shape[axis]);
    if (count < 0) {
      return fail(Code::kUnsupportedForm, fmt::format("no slice {}:{}:{} of axis {} of {}", begin[axis], end[axis],
                                                      strides[axis], axis, to_string(node.type(0).shape)));
    }
    shape[axis] = count;
  }
  return std::vector<TensorType>{reshaped(node, 0, std::move(shape))};
}

Result<Kernel> copy_kernel(const KernelRequest& request) {
  const TensorType& in = request.node.type(0);
  const IntList& begin = request.node.attributes.integers("begin");
  const IntList& strides = request.node.attributes.integers("strides");
  const Shape& shape = request.results[0]->shape;
  const IntList from = kernels::strides_of(in.shape);
  const IntList to = kernels::strides_of(shape);
  std::vector<kernels::StridedCopy::Axis> axes;
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    // The step does not matter, and may be absurdly large, where one element is taken.
    const std::int64_t step = shape[axis] > 1 ? strides[axis] : 0;
    axes.push_back({shape[axis], step * from[axis], to[axis]});
    offset += begin[axis] * from[axis];
  }
  Kernel kernel;
  kernel.run = [copy = kernels::StridedCopy(axes, size_of(in.dtype), offset)](const KernelCall& call) {
    copy.run(call.operands[0], call.results[0]);
  };
  return kernel;
}

/// What QNN makes of an end in front of the first element is not documented.
Status check_lowering(const NodeView& node) {
  for (const std::int64_t step : node.attributes.integers("strides")) {
    if (step < 0) return fail(Code::kUnsupportedForm, "QNN's StridedSlice is used with positive strides only");
  }
  return {};
}

}  // namespace

const OpDef& strided_slice() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "StridedSlice";
    def.doc = "Every step-th element between begin and end along each axis.";
    def.operands = {{"input"}};
    def.attributes = {{"begin", IntList{}, true, "first element along each axis"},
                      {"end", IntList{}, true, "end along each axis, exclusive; -1 with a negative stride: before 0"},
                      {"strides", IntList{}, true, "step along each axis, not 0"}};
    def.infer = infer;
    def.float_kernel = copy_kernel;
    def.fixed_kernel = on_stored(copy_kernel);
    def.any_dtype = true;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = {"StridedSlice", {{"begin", "ranges", ParamKind::kRanges}}, check_lowering};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
