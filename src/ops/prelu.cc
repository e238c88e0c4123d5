// Prelu: negative elements times a coefficient. The coefficients broadcast to the input as numpy does it: one per
// channel has the shape [channels] in channel-last data and [channels, 1, 1] in channel-first data.
// Source: QNN operator Prelu.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "kernels/fixed/elementwise.h"
#include "kernels/fixed/rounding.h"
#include "ops/broadcast.h"
#include "ops/fixed_pairs.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const TensorType& input = node.type(0);
  const TensorType& coefficients = node.type(1);
  if (input.dtype != coefficients.dtype) {
    return fail(Code::kDtypeMismatch, fmt::format("{} and {}", name_of(input.dtype), name_of(coefficients.dtype)));
  }
  if (!is_float(input.dtype) && !input.encoding) {
    return fail(Code::kUnsupportedForm, fmt::format("no Prelu of {}", name_of(input.dtype)));
  }
  HTPIPE_TRY(const Shape shape, broadcast(input.shape, coefficients.shape));
  if (shape != input.shape) {
    return fail(Code::kShapeMismatch, fmt::format("coefficients {} are too large for {}", to_string(coefficients.shape),
                                                  to_string(input.shape)));
  }
  return std::vector<TensorType>{{input.dtype, input.shape, std::nullopt}};
}

Result<Kernel> plain_kernel(const KernelRequest& request) {
  const TensorType& input = request.node.type(0);
  if (input.dtype != DType::kF32) {
    return fail(Code::kUnsupportedForm, fmt::format("no Prelu of {}", name_of(input.dtype)));
  }
  Kernel kernel;
  kernel.run = [plan =
                    plan_broadcast({&input.shape, &request.node.type(1).shape}, input.shape)](const KernelCall& call) {
    map_pairs(plan, call.in<float>(0), call.in<float>(1), call.out<float>(0), [](float x, float slope) {
      const float below = x * slope;
      return x > 0.0F ? x : below;
    });
  };
  return kernel;
}

/// 8 bits: the positive part is a Convert, the negative part one from the scale times the coefficient.
kernels::Binary rule_of_bytes(const kernels::Grid& from, const kernels::Grid& slopes, const kernels::Grid& to) {
  return [=, above = kernels::convert(from, to)](std::int64_t q, std::int64_t slope) {
    if (q >= from.zero) return above(q);
    kernels::Grid below = from;
    below.scale *= static_cast<double>(std::abs(slope - slopes.zero)) * slopes.scale;
    if (slope == slopes.zero) return kernels::clamp_to(to.zero, 0, to.high);
    return slope < slopes.zero ? kernels::negate(below, to)(q) : kernels::convert(below, to)(q);
  };
}

/// 16 bits: one factor for each part, cut off to the 15 bits of the largest of them.
kernels::Binary rule_of_words(const kernels::Grid& from, const kernels::Grid& slopes, const kernels::Grid& to,
                              double largest_slope) {
  const auto ratio = static_cast<double>(static_cast<float>(from.scale) / static_cast<float>(to.scale));
  int exponent = 0;  // of the power of two at or above the largest factor
  if (std::frexp(ratio * std::max(1.0, largest_slope), &exponent) == 0.5) --exponent;
  const int bits = 15 - exponent;
  const auto above = static_cast<std::int64_t>(std::ldexp(ratio, bits));
  return [=](std::int64_t q, std::int64_t slope) {
    const std::int64_t x = q - from.zero;
    const double real = static_cast<double>(slope - slopes.zero) * slopes.scale;
    const std::int64_t factor = x >= 0 ? above : static_cast<std::int64_t>(std::ldexp(ratio * real, bits));
    const std::int64_t y = kernels::shift(x * factor + kernels::shift(1, 1 - bits), bits) + to.zero;
    // The chip answers zero where the product runs over, unless the factor is above 1.
    const bool runs_over = bits >= 15 && kernels::shift(x * factor, bits) + to.zero > to.high;
    return runs_over ? std::int64_t{0} : kernels::clamp_to(y, 0, to.high);
  };
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(node.type(0)));
  HTPIPE_TRY(const kernels::Grid slopes, kernels::Grid::of(node.type(1)));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  if (from.wide() != slopes.wide() || from.wide() != to.wide()) {
    return fail(Code::kNoFixedRule, "Prelu of values of 8 and 16 bits");
  }
  const Tensor* constant = node.constants[1];
  if (!from.wide() && constant != nullptr && constant->count() == 1) {
    const double slope = constant->real(0);
    const auto map = kernels::table([slope](double x) { return x > 0 ? x : x * slope; }, from, to);
    return pair_kernel(request, [map](std::int64_t q, std::int64_t) { return map(q); });
  }
  if (!from.wide()) return pair_kernel(request, rule_of_bytes(from, slopes, to));
  const Shape& shape = node.type(1).shape;
  if (constant == nullptr || (constant->count() > 1 && constant->count() != shape.back())) {
    return fail(Code::kNoFixedRule, "in 16 bits the chip takes constant coefficients, one for all or one per channel");
  }
  double largest = 0;
  for (std::int64_t i = 0; i < constant->count(); ++i) largest = std::max(largest, std::abs(constant->real(i)));
  return pair_kernel(request, rule_of_words(from, slopes, to, largest));
}

}  // namespace

const OpDef& prelu() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Prelu";
    def.doc = "Negative elements times a coefficient.";
    def.operands = {{"input"}, {"coefficients"}};
    def.infer = infer;
    def.float_kernel = plain_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kElementwise;
    def.lowering = {"Prelu"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
