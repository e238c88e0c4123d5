// MatMul on stored integers: constant and computed operands, batches, transposes.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/op.h"

namespace htpipe::ops {

/// result[i] = left[left_of[i]] (m x k, or k x m when transposed) · right[right_of[i]] (k x n, or n x k).
struct MatrixProduct {
  std::int64_t m = 0, k = 0, n = 0;
  bool transpose_left = false;
  bool transpose_right = false;
  Shape batch;  ///< the leading axes of the result
  std::vector<std::int64_t> left_of;
  std::vector<std::int64_t> right_of;
};

/// MatMul on stored integers. Errors: no-fixed-rule.
Result<Kernel> fixed_matrix_product(const KernelRequest& request, const MatrixProduct& product);

}  // namespace htpipe::ops
