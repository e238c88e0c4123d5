// TopK: the k largest or smallest elements along one axis, in order, and where they stood. Of equal elements the one
// with the smaller index comes first. Source: QNN operator TopK; another axis than the last is ours.
#include <fmt/core.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "ops/movement.h"
#include "ops/ranking.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  Shape shape = node.type(0).shape;
  HTPIPE_TRY(const std::size_t axis, axis_of(node, "axis", shape.size()));
  const std::int64_t k = node.attributes.integer("k");
  if (k < 0 || k > shape[axis]) {
    return fail(Code::kUnsupportedForm, fmt::format("k {} of axis {} of {}", k, axis, to_string(shape)));
  }
  shape[axis] = k;
  return std::vector<TensorType>{reshaped(node, 0, shape), {DType::kI32, shape, std::nullopt}};
}

/// Elements T, indices I. Of equal elements the one with the smaller index comes first, or with `last_first` the other.
template <typename T, typename I>
Kernel make_kernel(const AxisSplit& split, std::int64_t k, bool largest, bool last_first = false) {
  Kernel kernel;
  kernel.scratch_bytes = static_cast<std::size_t>(split.size) * sizeof(std::int64_t);
  kernel.run = [=](const KernelCall& call) {
    auto* order = reinterpret_cast<std::int64_t*>(call.scratch);
    for (std::int64_t outer = 0; outer < split.outer; ++outer) {
      for (std::int64_t inner = 0; inner < split.inner; ++inner) {
        const T* line = call.in<T>(0) + outer * split.size * split.inner + inner;
        std::iota(order, order + split.size, std::int64_t{0});
        std::partial_sort(order, order + k, order + split.size, [&](std::int64_t a, std::int64_t b) {
          const T x = line[a * split.inner];
          const T y = line[b * split.inner];
          if (comes_before(x, y, largest, largest)) return true;
          return !comes_before(y, x, largest, largest) && (last_first ? b < a : a < b);
        });
        for (std::int64_t i = 0; i < k; ++i) {
          const std::int64_t place = (outer * k + i) * split.inner + inner;
          call.out<T>(0)[place] = line[order[i] * split.inner];
          call.out<I>(1)[place] = static_cast<I>(order[i]);
        }
      }
    }
  };
  return kernel;
}

Result<Kernel> plain_kernel(const KernelRequest& request) {
  const TensorType& in = request.node.type(0);
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node, "axis", in.shape.size()));
  const AxisSplit split = split_at(in.shape, axis);
  const std::int64_t k = request.node.attributes.integer("k");
  const bool largest = request.node.attributes.flag("largest");
  if (in.dtype == DType::kF32) return make_kernel<float, std::int64_t>(split, k, largest);
  if (in.dtype == DType::kI64) return make_kernel<std::int64_t, std::int64_t>(split, k, largest);
  if (in.dtype == DType::kBool) return make_kernel<std::uint8_t, std::int64_t>(split, k, largest);
  return fail(Code::kUnsupportedForm, fmt::format("no order of {}", name_of(in.dtype)));
}

/// The chip compares stored values; of equal ones it takes the last first.
Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const TensorType& in = request.node.type(0);
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node, "axis", in.shape.size()));
  if (axis + 1 != in.shape.size()) return fail(Code::kNoFixedRule, "TopK along another axis than the last");
  HTPIPE_CHECK_OK(check_same_encoding(in, *request.results[0]));
  const AxisSplit split = split_at(in.shape, axis);
  const std::int64_t k = request.node.attributes.integer("k");
  const bool largest = request.node.attributes.flag("largest");
  switch (in.dtype) {
    case DType::kU8:
      return make_kernel<std::uint8_t, std::int32_t>(split, k, largest, true);
    case DType::kI8:
      return make_kernel<std::int8_t, std::int32_t>(split, k, largest, true);
    case DType::kU16:
      return make_kernel<std::uint16_t, std::int32_t>(split, k, largest, true);
    case DType::kI16:
      return make_kernel<std::int16_t, std::int32_t>(split, k, largest, true);
    default:
      return fail(Code::kNoFixedRule, fmt::format("no order of stored {}", name_of(in.dtype)));
  }
}

Status check_lowering(const NodeView& node) {
  if (node.attributes.integer("axis") + 1 == static_cast<std::int64_t>(node.type(0).shape.size())) return {};
  return fail(Code::kUnsupportedForm, "QNN's TopK takes the last axis only");
}

}  // namespace

const OpDef& top_k() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "TopK";
    def.doc = "The k largest or smallest elements along one axis, and where they stood.";
    def.operands = {{"input"}};
    def.attributes = {{"k", std::int64_t{1}, true, "how many"},
                      {"axis", std::int64_t{0}, true, "axis along which to look"},
                      {"largest", true, false, "the largest, else the smallest"},
                      {"sorted", true, false, "false allows any order; the results are sorted all the same"}};
    def.infer = infer;
    def.float_kernel = plain_kernel;
    def.fixed_kernel = fixed_kernel;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.lowering = {
        "TopK", {{"k", "k", ParamKind::kU32}, {"largest", "largest", ParamKind::kBool, {}, true}}, check_lowering};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
