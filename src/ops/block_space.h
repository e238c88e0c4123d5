// What DepthToSpace and SpaceToDepth share: blocks of pixels in space against groups of channels in depth.
#pragma once

#include <vector>

#include "base/result.h"
#include "ir/op.h"

namespace htpipe::ops {

/// Attributes: data_layout, block_size [height, width], mode (dcr: the channels of a block's pixels stand one pixel
/// after the other; crd: one channel after the other).
[[nodiscard]] std::vector<AttributeSpec> block_attributes();
[[nodiscard]] std::vector<ParamLowering> block_params();

/// Result type of moving channels into space (`to_space`) or back. Errors: shape-mismatch, unsupported-form.
Result<std::vector<TensorType>> infer_blocks(const NodeView& node, bool to_space);
/// Errors: none for nodes that passed infer_blocks.
Result<Kernel> block_kernel(const KernelRequest& request, bool to_space);

}  // namespace htpipe::ops
