// Integer matrix product plus requantisation: the fixed-point core that Conv2d, FullyConnected and MatMul share.
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
  struct Request {
    const TensorType& input;
    const TensorType& output;
    const kernels::ColumnWeights& weights;  ///< row-major [k, n]; with groups, group g owns n/group columns
    std::int64_t k = 0;
    std::int64_t n = 0;
    std::int64_t group = 1;
    std::span<const std::int32_t> bias;
    float bias_scale = 1;
    int htp_version = 73;
    kernels::ConvForm form = kernels::ConvForm::kStandard;
  };
  /// Errors: no-fixed-rule.
  static Result<FixedProduct> make(const Request& request);
  /// The same for a node whose operand 0 is the data and whose operand 2 is a constant bias.
  static Result<FixedProduct> make(const KernelRequest& request, const kernels::ColumnWeights& weights, std::int64_t k,
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
  std::vector<kernels::PackedI16> packed_;  ///< of each group
  std::vector<kernels::PackedI16> high_;    ///< upper halves of weights with more than 8 bits; empty without
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
