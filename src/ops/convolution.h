// What Conv2d and Conv3d share: sizes, shape rule and the float kernel.
// Data [n,c,(d,)h,w] with weights [out,in/group,(kd,)kh,kw] ("nchw"), or [n,(d,)h,w,c] with [(kd,)kh,kw,in/group,out].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/op.h"
#include "kernels/window.h"

namespace htpipe::ops {

struct ConvolutionShapes {
  kernels::Window window;
  std::int64_t group = 1;
  std::int64_t in_per_group = 1;
  std::int64_t out_channels = 1;
  [[nodiscard]] std::int64_t patch() const { return window.cells() * in_per_group; }
  [[nodiscard]] std::int64_t out_per_group() const { return out_channels / group; }
};

/// Sizes of a node with data, weights, an optional bias and the attribute group. Errors: shape-mismatch,
/// unsupported-form.
Result<ConvolutionShapes> convolution_shapes(const NodeView& node, std::size_t axes);

/// data_layout, stride, pad_amount, dilation, group, activation.
[[nodiscard]] std::vector<AttributeSpec> convolution_attributes(std::size_t axes);

Result<std::vector<TensorType>> infer_convolution(const NodeView& node, std::size_t axes);
/// Constant weights are packed once, others in every run.
Result<Kernel> convolution_kernel(const KernelRequest& request, std::size_t axes);
std::int64_t convolution_macs(const NodeView& node, std::span<const TensorType* const> results);

}  // namespace htpipe::ops
