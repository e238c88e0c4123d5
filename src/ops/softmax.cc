// Softmax: exp(beta * x) over its sum along one axis. Source: QNN operator Softmax; the HTP takes the last axis only.
#include "ops/softmax.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/fixed/softmax.h"
#include "kernels/vector_math.h"
#include "ops/lanes.h"
#include "ops/normalise.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<Kernel> float_kernel(const KernelRequest& request) { return softmax_kernel(request, false); }

/// Softmax along the last axis.
Kernel rows_kernel(const NodeView& node) {
  const Shape& shape = node.type(0).shape;
  const std::int64_t count = shape.back();
  const std::int64_t rows = count > 0 ? element_count(shape) / count : 0;
  Kernel kernel;
  kernel.run = [rows, count, beta = node.attributes.real("beta")](const KernelCall& call) {
    constexpr std::int64_t kGrain = 1 << 13;  // elements that are worth a hand-over to another thread
    for_parts(call, rows, kGrain / (count + 1) + 1, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      kernels::vector_math().softmax(
          {call.in<float>(0) + begin * count, call.out<float>(0) + begin * count, end - begin, count, beta});
    });
  };
  return kernel;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) { return fixed_softmax_kernel(request, false); }

}  // namespace

std::vector<AttributeSpec> softmax_attributes() {
  return {{"axis", std::int64_t{0}, true, "axis along which the result sums up to 1"},
          {"beta", 1.0F, false, "factor of the input"}};
}

Result<std::vector<TensorType>> infer_softmax(const NodeView& node) {
  HTPIPE_CHECK_OK(check_real(node, 0));
  HTPIPE_CHECK_OK(axis_of(node));
  const float beta = node.attributes.real("beta");
  if (!std::isfinite(beta)) return fail(Code::kUnsupportedForm, fmt::format("beta {}", beta));
  return same_as_input(node);
}

Result<Kernel> softmax_kernel(const KernelRequest& request, bool logarithm) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const std::size_t axis, axis_of(node));
  const Shape& shape = node.type(0).shape;
  if (axis + 1 == shape.size() && !logarithm) return rows_kernel(node);
  std::vector<bool> inside(shape.size(), false);
  inside[axis] = true;
  Kernel kernel;
  kernel.run = [groups = groups_of(shape, inside), beta = static_cast<double>(node.attributes.real("beta")),
                logarithm](const KernelCall& call) {
    const auto group = [&](std::int64_t base) {
      const float* in = call.in<float>(0) + base;
      float* out = call.out<float>(0) + base;
      double largest = -std::numeric_limits<double>::infinity();
      for (const std::int64_t m : groups.members) largest = std::max(largest, beta * static_cast<double>(in[m]));
      // A group of nothing but -inf gives NaN, as in PyTorch and ONNX.
      double sum = 0;
      for (const std::int64_t m : groups.members) {
        const double power = std::exp(beta * static_cast<double>(in[m]) - largest);
        sum += power;
        if (!logarithm) out[m] = static_cast<float>(power);
      }
      const double shift = largest + std::log(sum);
      for (const std::int64_t m : groups.members) {
        out[m] = static_cast<float>(logarithm ? beta * static_cast<double>(in[m]) - shift
                                              : static_cast<double>(out[m]) / sum);
      }
    };
    for_parts(call, static_cast<std::int64_t>(groups.bases.size()), 64,
              [&](std::int64_t begin, std::int64_t end, std::byte*) {
                for (std::int64_t g = begin; g < end; ++g) group(groups.bases[static_cast<std::size_t>(g)]);
              });
  };
  return kernel;
}

Result<Kernel> fixed_softmax_kernel(const KernelRequest& request, bool logarithm) {
  const TensorType& in = request.node.type(0);
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node));
  if (axis + 1 != in.shape.size()) return fail(Code::kNoFixedRule, "Softmax along another axis than the last");
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(in));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  const std::int64_t length = in.shape[axis];
  const auto beta = static_cast<double>(request.node.attributes.real("beta"));
  HTPIPE_TRY(const kernels::FixedSoftmax softmax, kernels::FixedSoftmax::make(from, to, beta, length));
  const std::int64_t rows = length > 0 ? in.count() / length : 0;
  Kernel kernel;
  kernel.lane_scratch_bytes = static_cast<std::size_t>(length) * sizeof(std::int64_t);
  kernel.run = [=, in_type = in.dtype, out_type = request.results[0]->dtype](const KernelCall& call) {
    const std::int64_t grain = std::max<std::int64_t>(1, 1024 / std::max<std::int64_t>(length, 1));
    for_parts(call, rows, grain, [&](std::int64_t begin, std::int64_t end, std::byte* scratch) {
      auto* row = reinterpret_cast<std::int64_t*>(scratch);
      for (std::int64_t r = begin; r < end; ++r) {
        for (std::int64_t i = 0; i < length; ++i) row[i] = kernels::load(call.operands[0], in_type, r * length + i);
        if (logarithm) {
          kernels::fixed_log_softmax(row, length, from, to, beta);
        } else {
          softmax.run(row);
        }
        for (std::int64_t i = 0; i < length; ++i) kernels::store(call.results[0], out_type, r * length + i, row[i]);
      }
    });
  };
  return kernel;
}

std::vector<ParamLowering> softmax_params() {
  return {{"axis", "axis", ParamKind::kU32}, {"beta", "beta", ParamKind::kF32, {}, true}};
}

const OpDef& softmax() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Softmax";
    def.doc = "Exponentials over their sum along one axis.";
    def.operands = {{"input"}};
    def.attributes = softmax_attributes();
    def.infer = infer_softmax;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kAxis;
    def.result_encoding = ResultEncoding::kWholeUnits;
    def.lowering = {"Softmax", softmax_params()};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
