// What the operators with a window over height and width, or depth, height and width, share: layout, geometry, shapes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "ir/op.h"
#include "kernels/window.h"

namespace htpipe::ops {

/// Attributes over `axes` spatial axes: data_layout, stride [(d,)h,w], pad_amount [before, after of each axis],
/// dilation [(d,)h,w]. "nchw" stands for [n,c,d,h,w] too, "nhwc" for [n,d,h,w,c].
[[nodiscard]] AttributeSpec layout_attribute();
[[nodiscard]] AttributeSpec stride_attribute(std::size_t axes = 2);
[[nodiscard]] AttributeSpec pad_attribute(std::size_t axes = 2);
[[nodiscard]] AttributeSpec dilation_attribute(std::size_t axes = 2);

[[nodiscard]] bool is_nhwc(const Attributes& attributes);

/// The spatial sizes of a shape of rank 4 or 5 in the node's layout, and its channels.
[[nodiscard]] std::vector<std::int64_t> spatial_sizes(const Shape& shape, bool nhwc);
[[nodiscard]] std::int64_t channels_of(const Shape& shape, bool nhwc);

/// Window of a node over its operand 0, as many axes as `kernel` has. `ceil` rounds the output size up (and keeps
/// windows that begin inside the image or the padding in front of it).
/// Errors: shape-mismatch, unsupported-form.
Result<kernels::Window> make_window(const NodeView& node, const std::vector<std::int64_t>& kernel, bool ceil);

/// The window of the convolution that a transposed one is the gradient of: its output is the node's operand 0, its input
/// the node's result with `channels` channels. Errors: shape-mismatch, unsupported-form.
Result<kernels::Window> make_transposed_window(const NodeView& node, const std::vector<std::int64_t>& kernel,
                                               std::int64_t channels);

/// Data, weights and bias are floats or stored integers. Errors: dtype-mismatch.
Status check_products(const NodeView& node);
/// Every operand is float32, as kernels for plain floats need it. Errors: unsupported-form.
Status require_f32(const NodeView& node);

/// The constant weights (operand 1) in the form for channel-last data; `to_nhwc` permutes the channel-first form.
/// Errors: unsupported-form when they are not constant.
Result<Tensor> nhwc_weights(const NodeView& node, const std::vector<std::int64_t>& to_nhwc);

/// Result type [n, (d,) h, w, c] in the node's layout.
[[nodiscard]] TensorType window_result(const NodeView& node, const kernels::Window& window, std::int64_t channels);

/// Runs `kernel`, which works on [n,(d,)h,w,c], for a node in either layout: "nchw" data is permuted on the way in and
/// out. An element has 4 or 8 bytes.
[[nodiscard]] Kernel with_layout(const NodeView& node, std::int64_t out_pixels, std::int64_t out_channels,
                                 Kernel kernel);

}  // namespace htpipe::ops
