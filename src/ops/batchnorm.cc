// Batchnorm in inference form: x * weight[c] + bias[c]; mean, variance and epsilon are folded in by the importer.
// Channel axis 1 ("nchw", also rank 2) or the last ("nhwc"). Source: QNN operator Batchnorm.
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "kernels/fixed/column_weights.h"
#include "kernels/fixed/conv_requant.h"
#include "kernels/fixed/elementwise.h"
#include "ops/fixed_product.h"
#include "ops/lanes.h"
#include "ops/normalise.h"
#include "ops/registry.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

/// Elements that are worth a hand-over to another thread.
constexpr std::int64_t kPartElements = 1 << 15;

Result<ChannelSizes> sizes_of(const NodeView& node) {
  ChannelSizes sizes;
  if (node.type(0).shape.size() == 1) {
    sizes.channels = node.type(0).shape[0];
    sizes.last = true;
  } else {
    HTPIPE_TRY(sizes, channel_sizes(node, 2));
  }
  for (std::size_t operand = 1; operand < 3; ++operand) {
    if (node.type(operand).count() != sizes.channels) {
      return fail(Code::kShapeMismatch,
                  fmt::format("{} channels, but {} weights or biases", sizes.channels, node.type(operand).count()));
    }
  }
  return sizes;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_CHECK_OK(sizes_of(node));
  return same_as_input(node);
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const ChannelSizes sizes, sizes_of(request.node));
  Kernel kernel;
  kernel.run = [sizes](const KernelCall& call) {
    const float* in = call.in<float>(0);
    float* out = call.out<float>(0);
    const std::int64_t rows = sizes.batch * (sizes.last ? sizes.pixels : 1);
    const std::int64_t run = sizes.last ? 1 : sizes.pixels;  // neighbours of one channel
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t c = 0; c < sizes.channels; ++c, in += run, out += run) {
        const float weight = call.in<float>(1)[c];
        const float bias = call.in<float>(2)[c];
        for (std::int64_t i = 0; i < run; ++i) out[i] = in[i] * weight + bias;
      }
    }
  };
  return kernel;
}

/// The chip takes it for a depthwise 1x1 convolution: in 8 bits on v73 and later of the standard form, else without shift.
Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const ChannelSizes sizes, sizes_of(node));
  if (!sizes.last) return fail(Code::kNoFixedRule, "only channel-last data has an integer rule");
  const Tensor* weight = node.constants[1];
  if (weight == nullptr) return fail(Code::kNoFixedRule, "weights must be constant");
  HTPIPE_TRY(const kernels::Grid grid, kernels::Grid::of(node.type(0)));
  HTPIPE_TRY(const std::vector<std::int32_t> bias, stored_bias(node, 2));
  const bool standard = !grid.wide() && request.htp_version >= 73;
  HTPIPE_TRY(const auto columns, kernels::column_weights(weight->type(), weight->bytes().data(), {sizes.channels, 1},
                                                         standard ? kernels::Excess::kShrink : kernels::Excess::kKeep));
  if (columns.scales.per_channel || columns.scales.deep) {
    return fail(Code::kNoFixedRule, "a Batchnorm takes 8-bit weights with one scale");
  }
  const std::vector<std::int64_t> sums(columns.values.begin(), columns.values.end());
  const float bias_scale = node.type(2).encoding ? node.type(2).encoding->scale() : 1.0F;
  HTPIPE_TRY(const auto requant,
             kernels::ConvRequant::make(
                 {node.type(0), columns.scales, *request.results[0], bias, sums, bias_scale, sizes.channels,
                  standard ? kernels::ConvForm::kStandard : kernels::ConvForm::kNoShift, request.htp_version}));
  const std::int64_t centre = requant.uncentred() ? 0 : grid.zero;
  const DType dtype = node.type(0).dtype;
  const std::int64_t offset = grid.offset;
  const auto result = [=, weights = columns.values](std::int64_t x, std::int64_t c) {
    const auto channel = static_cast<std::size_t>(c);
    return requant.apply((x - centre) * weights[channel], channel) + offset;
  };
  const std::int64_t rows = sizes.batch * sizes.pixels;
  // 8 bits: every channel is a table.
  auto tables = std::make_shared<std::vector<std::uint8_t>>();
  for (std::int64_t c = 0; c < sizes.channels && !grid.wide(); ++c) {
    for (std::int64_t x = 0; x < 256; ++x) tables->push_back(static_cast<std::uint8_t>(result(x, c)));
  }
  Kernel kernel;
  kernel.run = [=, channels = sizes.channels, wide = grid.wide()](const KernelCall& call) {
    for_parts(call, rows, kPartElements / std::max<std::int64_t>(channels, 1) + 1,
              [&](std::int64_t begin, std::int64_t end, std::byte*) {
                for (std::int64_t i = begin * channels; i < end * channels; ++i) {
                  const std::int64_t x = kernels::load(call.operands[0], dtype, i);
                  const std::int64_t c = i % channels;
                  kernels::store(call.results[0], dtype, i,
                                 wide ? result(x, c) : (*tables)[static_cast<std::size_t>(c * 256 + x)]);
                }
              });
  };
  return kernel;
}

}  // namespace

const OpDef& batchnorm() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Batchnorm";
    def.doc = "Scale and shift per channel.";
    def.operands = {{"input"}, {"weight", Role::kWeight}, {"bias", Role::kBias}};
    def.attributes = {layout_attribute()};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kSpatial;
    def.lowering = {"Batchnorm"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
