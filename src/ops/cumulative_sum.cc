// CumulativeSum: every element is the sum of those up to it along one axis. Floats are summed in double precision; on
// the chip a stored result is the sum so far, rounded and saturated at every step.
// Source: QNN operator CumulativeSum.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/fixed/elementwise.h"
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

/// Stored values T; the same formula in 8 and 16 bits, in single precision.
template <typename T>
Kernel fixed_kernel_of(const AxisSplit& split, bool exclusive, bool reverse, const kernels::Grid& from,
                       const kernels::Grid& to) {
  Kernel kernel;
  kernel.run = [=, factor = 1.0F / static_cast<float>(to.scale), high = static_cast<float>(to.high),
                zero = static_cast<float>(to.zero)](const KernelCall& call) {
    const T* in = call.in<T>(0);
    T* out = call.out<T>(0);
    const std::int64_t onward = reverse ? -split.inner : split.inner;
    for (std::int64_t outer = 0; outer < split.outer; ++outer) {
      const std::int64_t block = outer * split.size * split.inner;
      std::int64_t row = reverse ? block + (split.size - 1) * split.inner : block;
      for (std::int64_t step = 0; step < split.size; ++step, row += onward) {
        for (std::int64_t i = row; i < row + split.inner; ++i) {
          const std::int64_t so_far = step == 0 ? to.zero : out[i - onward] + to.offset;
          if (step == 0 && exclusive) {
            out[i] = static_cast<T>(to.zero - to.offset);
            continue;
          }
          const T next = in[exclusive ? i - onward : i];
          const float sum = kernels::dequantize(so_far, to) + kernels::dequantize(next + from.offset, from);
          const float stored = std::clamp(std::nearbyint(sum * factor + zero), 0.0F, high);
          out[i] = static_cast<T>(static_cast<std::int64_t>(stored) - to.offset);
        }
      }
    }
  };
  return kernel;
}

/// Errors: unsupported-form where the chip's answer is no sum (in 8 bits along the height and the width its blocks of eight
/// do not carry over, and count zero points wrongly), and for float16 that is exclusive or reverse: the validator takes it,
/// the graph is not finalized (v75, axes 1 and last, ranks 3 and 4).
Status check_lowering(const NodeView& node) {
  const TensorType& in = node.type(0);
  if (in.dtype == DType::kF16) {
    for (const char* name : {"exclusive", "reverse"}) {
      if (node.attributes.flag(name)) {
        return fail(Code::kUnsupportedForm, fmt::format("the HTP's float16 CumulativeSum has no {}", name));
      }
    }
    return {};
  }
  if (in.dtype != DType::kU8 && in.dtype != DType::kI8) return {};
  HTPIPE_TRY(const std::size_t axis, axis_of(node, "axis", in.shape.size()));
  const std::size_t from_end = in.shape.size() - 1 - axis;
  if (from_end == 0 || from_end > 2) return {};
  return fail(Code::kUnsupportedForm, "the chip sums 8 bits wrongly along the height and the width");
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const TensorType& in = request.node.type(0);
  if (const Status sums = check_lowering(request.node); !sums) {
    return fail(Code::kNoFixedRule, sums.error().message);
  }
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node, "axis", in.shape.size()));
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(in));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  const AxisSplit split = split_at(in.shape, axis);
  const bool exclusive = request.node.attributes.flag("exclusive");
  const bool reverse = request.node.attributes.flag("reverse");
  switch (in.dtype) {
    case DType::kU8:
      return fixed_kernel_of<std::uint8_t>(split, exclusive, reverse, from, to);
    case DType::kI8:
      return fixed_kernel_of<std::int8_t>(split, exclusive, reverse, from, to);
    case DType::kU16:
      return fixed_kernel_of<std::uint16_t>(split, exclusive, reverse, from, to);
    default:
      return fixed_kernel_of<std::int16_t>(split, exclusive, reverse, from, to);
  }
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
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kAxis;
    def.lowering = {"CumulativeSum",
                    {{"axis", "axis", ParamKind::kU32},
                     {"exclusive", "exclusive", ParamKind::kBool, {}, true},
                     {"reverse", "reverse", ParamKind::kBool, {}, true}},
                    check_lowering};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
