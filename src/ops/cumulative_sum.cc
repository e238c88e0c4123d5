// CumulativeSum: every element is the sum of those up to it along one axis. Floats are summed in double precision.
// Source: QNN operator CumulativeSum.
#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "ops/movement.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const TensorType& in = node.type(0);
  HTPIPE_CHECK_OK(axis_of(node, "axis", in.shape.size()));
  if (in.dtype == DType::kBool) return fail(Code::kUnsupportedForm, "sums of bool");
  return std::vector<TensorType>{reshaped(node, 0, in.shape)};
}

/// Elements T, sums A (unsigned for integers: they wrap around as two's complement does).
template <typename T, typename A>
Kernel make_kernel(const AxisSplit& split, bool exclusive, bool reverse) {
  Kernel kernel;
  kernel.scratch_bytes = static_cast<std::size_t>(split.inner) * sizeof(A);
  kernel.run = [=](const KernelCall& call) {
    A* sums = reinterpret_cast<A*>(call.scratch);
    for (std::int64_t outer = 0; outer < split.outer; ++outer) {
      std::fill_n(sums, split.inner, A{0});
      for (std::int64_t step = 0; step < split.size; ++step) {
        const std::int64_t at = reverse ? split.size - 1 - step : step;
        const std::int64_t row = (outer * split.size + at) * split.inner;
        const T* in = call.in<T>(0) + row;
        T* out = call.out<T>(0) + row;
        for (std::int64_t i = 0; i < split.inner; ++i) {
          const A sum = sums[i] + static_cast<A>(in[i]);
          out[i] = static_cast<T>(exclusive ? sums[i] : sum);
          sums[i] = sum;
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
  const bool exclusive = request.node.attributes.flag("exclusive");
  const bool reverse = request.node.attributes.flag("reverse");
  if (in.dtype == DType::kF32) return make_kernel<float, double>(split, exclusive, reverse);
  if (in.dtype == DType::kI64) return make_kernel<std::int64_t, std::uint64_t>(split, exclusive, reverse);
  return fail(Code::kUnsupportedForm, fmt::format("sums of {}", name_of(in.dtype)));
}

}  // namespace

const OpDef& cumulative_sum() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "CumulativeSum";
    def.doc = "Every element is the sum of those up to it along one axis.";
    def.operands = {{"input"}};
    def.attributes = {{"axis", std::int64_t{0}, true, "axis along which to sum"},
                      {"exclusive", false, false, "without the element itself"},
                      {"reverse", false, false, "from the end"}};
    def.infer = infer;
    def.float_kernel = plain_kernel;
    def.layout = Layout::kAxis;
    def.lowering = {"CumulativeSum",
                    {{"axis", "axis", ParamKind::kU32},
                     {"exclusive", "exclusive", ParamKind::kBool, {}, true},
                     {"reverse", "reverse", ParamKind::kBool, {}, true}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
