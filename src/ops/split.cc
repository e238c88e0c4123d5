// Split: one result for each part of an axis between cuts. Source: QNN operator Split.
#include <fmt/core.h>

#include <vector>

#include "kernels/strided_copy.h"
#include "ops/movement.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

using IntList = std::vector<std::int64_t>;

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const Shape& shape = node.type(0).shape;
  HTPIPE_TRY(const std::size_t axis, axis_of(node, "axis", shape.size()));
  IntList ends = node.attributes.integers("split_index");
  ends.push_back(shape[axis]);
  std::vector<TensorType> results;
  std::int64_t begin = 0;
  for (const std::int64_t end : ends) {
    if (end < begin || end > shape[axis]) {
      return fail(Code::kUnsupportedForm,
                  fmt::format("cuts {} of axis {} of {}", to_string(node.attributes.integers("split_index")), axis,
                              to_string(shape)));
    }
    Shape part = shape;
    part[axis] = end - begin;
    results.push_back(reshaped(node, 0, std::move(part)));
    begin = end;
  }
  return results;
}

Result<Kernel> copy_kernel(const KernelRequest& request) {
  const TensorType& in = request.node.type(0);
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node, "axis", in.shape.size()));
  const AxisSplit whole = split_at(in.shape, axis);
  std::vector<kernels::StridedCopy> copies;
  std::int64_t begin = 0;
  for (const TensorType* result : request.results) {
    const std::int64_t row = result->shape[axis] * whole.inner;
    copies.emplace_back(
        std::vector<kernels::StridedCopy::Axis>{{whole.outer, whole.size * whole.inner, row}, {row, 1, 1}},
        size_of(in.dtype), begin);
    begin += row;
  }
  Kernel kernel;
  kernel.run = [copies](const KernelCall& call) {
    for (std::size_t i = 0; i < copies.size(); ++i) copies[i].run(call.operands[0], call.results[i]);
  };
  return kernel;
}

}  // namespace

const OpDef& split() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Split";
    def.doc = "One result for each part of an axis between cuts.";
    def.operands = {{"input"}};
    def.attributes = {{"axis", std::int64_t{0}, true, "axis that is cut"},
                      {"split_index", IntList{}, true, "where each part but the first begins, ascending"}};
    def.infer = infer;
    def.float_kernel = copy_kernel;
    def.fixed_kernel = on_stored(copy_kernel);
    def.any_dtype = true;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = {"Split", {{"axis", "axis", ParamKind::kU32}, {"split_index", "split_index", ParamKind::kU32List}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
