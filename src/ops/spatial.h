// What the operators with a 2-D window share: layout, window geometry and shape rules.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "ir/op.h"
#include "kernels/window.h"

namespace htpipe::ops {

/// Attributes: data_layout, stride [h,w], pad_amount [top,bottom,left,right], dilation [h,w].
[[nodiscard]] AttributeSpec layout_attribute();
[[nodiscard]] AttributeSpec stride_attribute();
[[nodiscard]] AttributeSpec pad_attribute();
[[nodiscard]] AttributeSpec dilation_attribute();

[[nodiscard]] bool is_nhwc(const Attributes& attributes);

/// Window of a node over its operand 0. `ceil` rounds the output size up (and keeps windows that begin inside).
/// Errors: shape-mismatch, unsupported-form.
Result<kernels::Window> make_window(const NodeView& node, std::int64_t kernel_h, std::int64_t kernel_w, bool dilated,
                                    bool ceil);

/// The constant weights (operand 1) in the form for channel-last data; `to_nhwc` permutes the channel-first form.
/// Errors: unsupported-form when they are not constant.
Result<Tensor> nhwc_weights(const NodeView& node, const std::vector<std::int64_t>& to_nhwc);

/// Result type [n, h, w, c] in the node's layout.
[[nodiscard]] TensorType window_result(const NodeView& node, const kernels::Window& window, std::int64_t channels);

/// Runs `kernel`, which works on [n,h,w,c], for a node in either layout: "nchw" data is permuted on the way in and out.
[[nodiscard]] Kernel with_layout(const NodeView& node, const kernels::Window& window, std::int64_t out_channels,
                                 Kernel kernel);

}  // namespace htpipe::ops
