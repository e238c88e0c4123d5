// What the normalising operators share: which elements belong together, their moments, gamma and beta.
// Invariant: sums run in one order, in double precision or as kernels/vector_math.h says, so results do not depend on
// threads or vector width.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "ir/op.h"

namespace htpipe::ops {

/// Elements that are normalised together: member m of group g is element bases[g] + members[m].
struct Groups {
  std::vector<std::int64_t> bases;
  std::vector<std::int64_t> members;
};
/// Groups of `shape`: the axes in `inside` run within a group, the others from group to group, both in row-major order.
[[nodiscard]] Groups groups_of(const Shape& shape, const std::vector<bool>& inside);

/// The attribute `axes` as a set. Errors: unsupported-form when it is empty, has an axis twice or one out of range.
Result<std::vector<bool>> axis_set(const NodeView& node);
/// The attribute `axis`. Errors: unsupported-form when it is out of range.
Result<std::size_t> axis_of(const NodeView& node);

/// A tensor with a batch axis, a channel axis (second, or last) and pixels.
struct ChannelSizes {
  std::int64_t batch = 1;
  std::int64_t channels = 1;
  std::int64_t pixels = 1;
  bool last = false;  ///< the channel axis is the last one
};
/// By the attribute data_layout. Errors: shape-mismatch for a rank below `low_rank`, unsupported-form.
Result<ChannelSizes> channel_sizes(const NodeView& node, std::size_t low_rank);

/// That operand 0 holds real numbers: floats, or stored values with an encoding. Errors: dtype-mismatch.
Status check_real(const NodeView& node, std::size_t operand);
/// That gamma (operand 1) and beta (operand 2) hold `count` real numbers where they are given, and that there is no
/// beta without a gamma, which QNN could not express. Errors: shape-mismatch, dtype-mismatch, unsupported-form.
Status check_gamma_beta(const NodeView& node, std::int64_t count);
/// That the attribute epsilon is a number from 0 up. Errors: unsupported-form.
Status check_epsilon(const NodeView& node);

/// The type of operand 0 without its encoding: what a normalised result has.
[[nodiscard]] std::vector<TensorType> same_as_input(const NodeView& node);

struct Moments {
  double mean = 0;
  double variance = 0;  ///< of the population, not of a sample
};
[[nodiscard]] Moments moments(const float* data, const std::vector<std::int64_t>& members);
/// Mean of the squares.
[[nodiscard]] double mean_square(const float* data, const std::vector<std::int64_t>& members);

/// True when the set is made of the last axes, so that groups are rows.
[[nodiscard]] bool trailing(const std::vector<bool>& inside);
/// Types of LayerNorm and RmsNorm: attributes axes and epsilon, optional gamma and beta.
Result<std::vector<TensorType>> infer_axes_norm(const NodeView& node);
/// LayerNorm over the attribute axes, or RmsNorm (not centred).
Result<Kernel> axes_norm_kernel(const NodeView& node, bool centred);
/// The same over the trailing axes `inside`.
[[nodiscard]] Kernel norm_rows_kernel(const NodeView& node, const std::vector<bool>& inside, bool centred);

/// GroupNorm and InstanceNorm: `group` groups of channels, each normalised over its channels and all pixels of an image.
Result<Kernel> channel_norm_kernel(const KernelRequest& request, const ChannelSizes& sizes, std::int64_t group);

}  // namespace htpipe::ops
