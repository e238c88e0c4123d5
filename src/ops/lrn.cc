// Lrn: x / (bias + alpha * sum of squares over neighbouring channels) ^ beta. The window reaches `radius` channels back
// and `radius_after` forward; alpha is a factor of each square (ONNX and PyTorch divide theirs by the window's size).
// Source: QNN operator Lrn (region ACROSS_CHANNEL).
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "kernels/fixed/elementwise.h"
#include "ops/normalise.h"
#include "ops/registry.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_CHECK_OK(check_real(node, 0));
  HTPIPE_CHECK_OK(channel_sizes(node, 2));
  if (node.attributes.integer("radius") < 0 || node.attributes.integer("radius_after") < -1) {
    return fail(Code::kUnsupportedForm, fmt::format("radius {} and {}", node.attributes.integer("radius"),
                                                    node.attributes.integer("radius_after")));
  }
  return same_as_input(node);
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const ChannelSizes sizes, channel_sizes(node, 2));
  const std::int64_t before = std::min(node.attributes.integer("radius"), sizes.channels);
  const std::int64_t asked = node.attributes.integer("radius_after");
  const std::int64_t after = asked < 0 ? before : std::min(asked, sizes.channels);
  const auto alpha = static_cast<double>(node.attributes.real("alpha"));
  const auto beta = static_cast<double>(node.attributes.real("beta"));
  const auto bias = static_cast<double>(node.attributes.real("bias"));
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    const std::int64_t stride = sizes.last ? 1 : sizes.pixels;  // from channel to channel
    for (std::int64_t i = 0; i < sizes.batch * sizes.pixels; ++i) {
      const std::int64_t first =
          sizes.last ? i * sizes.channels : i / sizes.pixels * sizes.channels * sizes.pixels + i % sizes.pixels;
      const float* in = call.in<float>(0) + first;
      float* out = call.out<float>(0) + first;
      for (std::int64_t c = 0; c < sizes.channels; ++c) {
        double sum = 0;
        const std::int64_t end = std::min(c + after + 1, sizes.channels);
        for (std::int64_t k = std::max<std::int64_t>(c - before, 0); k < end; ++k) {
          const auto value = static_cast<double>(in[k * stride]);
          sum += value * value;
        }
        const double divisor = std::pow(bias + alpha * sum, beta);
        out[c * stride] = static_cast<float>(static_cast<double>(in[c * stride]) / divisor);
      }
    }
  };
  return kernel;
}

Status check_lowering(const NodeView& node) {
  const std::int64_t after = node.attributes.integer("radius_after");
  if (after < 0 || after == node.attributes.integer("radius")) return {};
  return fail(Code::kUnsupportedForm, "QNN's Lrn has a window of odd size only");
}

/// 8 bits only: in real numbers, cut off towards the zero point.
Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const ChannelSizes sizes, channel_sizes(node, 2));
  HTPIPE_CHECK_OK(check_lowering(node));
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(node.type(0)));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  if (from.wide() || to.wide()) return fail(Code::kNoFixedRule, "the chip has no Lrn of 16 bits");
  if (!sizes.last) return fail(Code::kNoFixedRule, "only channel-last data has an integer rule");
  const std::int64_t radius = std::min(node.attributes.integer("radius"), sizes.channels);
  const auto alpha = static_cast<double>(node.attributes.real("alpha"));
  const auto beta = static_cast<double>(node.attributes.real("beta"));
  const auto bias = static_cast<double>(node.attributes.real("bias"));
  Kernel kernel;
  kernel.run = [=, in_type = node.type(0).dtype, out_type = request.results[0]->dtype](const KernelCall& call) {
    const auto real = [&](std::int64_t at) {
      return static_cast<double>(kernels::load(call.operands[0], in_type, at) - from.zero) * from.scale;
    };
    for (std::int64_t first = 0; first < sizes.batch * sizes.pixels * sizes.channels; first += sizes.channels) {
      for (std::int64_t c = 0; c < sizes.channels; ++c) {
        double sum = 0;
        const std::int64_t end = std::min(c + radius + 1, sizes.channels);
        for (std::int64_t k = std::max<std::int64_t>(c - radius, 0); k < end; ++k) {
          sum += real(first + k) * real(first + k);
        }
        const double steps = std::trunc(real(first + c) / std::pow(bias + alpha * sum, beta) / to.scale);
        const double q = std::clamp(steps + static_cast<double>(to.zero), 0.0, static_cast<double>(to.high));
        kernels::store(call.results[0], out_type, first + c, static_cast<std::int64_t>(q));
      }
    }
  };
  return kernel;
}

}  // namespace

const OpDef& lrn() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Lrn";
    def.doc = "Divides by a power of the squares of neighbouring channels.";
    def.operands = {{"input"}};
    def.attributes = {layout_attribute(),
                      {"radius", std::int64_t{0}, true, "channels of the window in front of the own one"},
                      {"radius_after", std::int64_t{-1}, false, "channels behind it; -1 = as many"},
                      {"alpha", 1.0F, false, "factor of each square"},
                      {"beta", 0.5F, false, "exponent"},
                      {"bias", 1.0F, false, "added to the sum"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kSpatial;
    def.lowering = {"Lrn",
                    {{"alpha", "alpha", ParamKind::kF32},
                     {"beta", "beta", ParamKind::kF32},
                     {"bias", "bias", ParamKind::kF32},
                     {"radius", "radius", ParamKind::kI32}},
                    check_lowering};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
