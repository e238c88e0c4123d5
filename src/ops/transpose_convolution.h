// What TransposeConv2d and TransposeConv3d share: sizes, shape rule and the float kernel.
// Data [n,c,(d,)h,w] with weights [in,out/group,(kd,)kh,kw] ("nchw"), or [n,(d,)h,w,c] with [(kd,)kh,kw,in,out/group].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/op.h"
#include "kernels/window.h"

namespace htpipe::ops {

struct TransposeShapes {
  kernels::Window window;  ///< of the convolution whose gradient this is: its input is our result, its output our input
  std::int64_t group = 1;
  std::int64_t in_channels = 1;
  std::int64_t out_per_group = 1;
  [[nodiscard]] std::int64_t in_per_group() const { return in_channels / group; }
  [[nodiscard]] std::int64_t patch() const { return window.cells() * out_per_group; }
};

/// Sizes of a node with data, weights and an optional bias. Errors: shape-mismatch, unsupported-form.
Result<TransposeShapes> transpose_convolution_shapes(const NodeView& node, std::size_t axes);

/// data_layout, stride, pad_amount, output_padding, group, activation.
[[nodiscard]] std::vector<AttributeSpec> transpose_convolution_attributes(std::size_t axes);
[[nodiscard]] std::vector<ParamLowering> transpose_convolution_params();

Result<std::vector<TensorType>> infer_transpose_convolution(const NodeView& node, std::size_t axes);
/// Every input pixel times the weights gives a patch; patches are added up in the order of the input pixels.
/// Constant weights are packed once, others in every run.
Result<Kernel> transpose_convolution_kernel(const KernelRequest& request, std::size_t axes);
/// TransposeConv2d on stored integers. Errors: no-fixed-rule.
Result<Kernel> fixed_transpose_convolution(const KernelRequest& request);
std::int64_t transpose_convolution_macs(const NodeView& node, std::span<const TensorType* const> results);

}  // namespace htpipe::ops
