// What executes one node: the kernel that its types ask for, and its evaluation on the spot when its operands are known.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"

namespace htpipe {

/// The kernel of a node:
/// - an encoding among its operands or results: the operator's fixed-point kernel, with the integer arithmetic of
///   `htp_version` (68, 73, 75 …);
/// - an operator with any_dtype: its plain kernel on the types as they are;
/// - float64 operands and an operator that has a kernel for them: that one;
/// - else its plain kernel on float32 for every float type, 64-bit integers for every integer type, and bool. Other
///   widths are converted on the way in and out; float16 results are rounded once, as the chip rounds them.
/// Errors: unsupported-form, no-fixed-rule.
Result<Kernel> make_kernel(const Node& node, int htp_version);

/// Scratch for the calls of kernels, not initialised.
class CallMemory {
 public:
  CallMemory(std::size_t scratch_bytes, std::size_t lane_scratch_bytes, int lanes);
  CallMemory(const Kernel& kernel, int lanes) : CallMemory(kernel.scratch_bytes, kernel.lane_scratch_bytes, lanes) {}
  [[nodiscard]] std::byte* scratch() const { return scratch_; }
  [[nodiscard]] const Lanes& lanes() const { return lanes_; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::byte* scratch_ = nullptr;
  Lanes lanes_;
};

/// The results of a node whose operands are all constant; needs no more scratch than `max_scratch_bytes`.
/// Errors: those of make_kernel.
Result<std::vector<Tensor>> evaluate(const Node& node, std::size_t max_scratch_bytes);

}  // namespace htpipe
