// Integer matrix product plus requantisation: the fixed-point core that Conv2d and FullyConnected share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/op.h"
#include "kernels/fixed/conv_requant.h"
#include "kernels/gemm.h"
#include "kernels/window.h"

namespace htpipe::ops {

class FixedProduct {
 public:
  /// `weights` is row-major [k, n]; with groups, group g owns n/group columns. Operand 0 is the data, 1 the weights (for
  /// their encoding), 2 the constant bias. Errors: no-fixed-rule.
  static Result<FixedProduct> make(const KernelRequest& request, std::span<const std::int8_t> weights, std::int64_t k,
                                   std::int64_t n, std::int64_t group);

  /// Scratch for a row of `width` outputs.
  [[nodiscard]] std::size_t scratch_bytes(std::int64_t width) const;
  /// One output row of group `g`: gathers patches from stored `in`, writes stored results from index `first_out` on.
  void run_row(const kernels::Window& window, const void* in, std::int64_t image, std::int64_t row, std::int64_t g,
               std::int64_t in_per_group, void* out, std::int64_t first_out, std::byte* scratch) const;

 private:
  void gather(const kernels::Window& window, const void* in, std::int64_t image, std::int64_t row, std::int64_t first,
              std::int64_t count, int part, std::int16_t* patches) const;

  kernels::ConvRequant requant_;
  std::vector<kernels::PackedI16> packed_;
  std::int64_t k_ = 0;
  std::int64_t n_ = 0;
  std::int64_t group_ = 1;
  std::int64_t input_zero_ = 0;
  DType input_dtype_ = DType::kU8;
  DType output_dtype_ = DType::kU8;
};

/// The constant bias of a node as 32-bit integers; empty when it has none. Errors: no-fixed-rule.
Result<std::vector<std::int32_t>> stored_bias(const NodeView& node, std::size_t operand);

}  // namespace htpipe::ops
