// Batchnorm in inference form: x * weight[c] + bias[c]; mean, variance and epsilon are folded in by the importer.
// Channel axis 1 ("nchw", also rank 2) or the last ("nhwc"). Source: QNN operator Batchnorm.
#include <fmt/core.h>

#include "ops/registry.h"
#include "ops/spatial.h"

namespace htpipe::ops {
namespace {

Result<std::size_t> channel_axis(const NodeView& node) {
  const Shape& shape = node.type(0).shape;
  if (shape.empty()) return fail(Code::kShapeMismatch, "needs rank 1 or more");
  const std::size_t axis = is_nhwc(node.attributes) || shape.size() == 1 ? shape.size() - 1 : 1;
  for (std::size_t operand = 1; operand < 3; ++operand) {
    if (node.type(operand).count() != shape[axis]) {
      return fail(Code::kShapeMismatch,
                  fmt::format("{} channels, but {} weights or biases", shape[axis], node.type(operand).count()));
    }
  }
  return axis;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_CHECK_OK(channel_axis(node));
  return std::vector<TensorType>{{node.type(0).dtype, node.type(0).shape, std::nullopt}};
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const std::size_t axis, channel_axis(request.node));
  const Shape& shape = request.node.type(0).shape;
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const std::int64_t channels = shape[axis];
  const std::int64_t count = request.node.type(0).count();
  Kernel kernel;
  kernel.run = [inner, channels, count](const KernelCall& call) {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t channel = i / inner % channels;
      call.out<float>(0)[i] = call.in<float>(0)[i] * call.in<float>(1)[channel] + call.in<float>(2)[channel];
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
