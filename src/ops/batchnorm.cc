// Batchnorm in inference form: x * weight[c] + bias[c]; mean, variance and epsilon are folded in by the importer.
// Channel axis 1 ("nchw", also rank 2) or the last ("nhwc"). Source: QNN operator Batchnorm.
#include <fmt/core.h>

#include "ops/normalise.h"
#include "ops/registry.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

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
    def.layout = Layout::kSpatial;
    def.lowering = {"Batchnorm"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
