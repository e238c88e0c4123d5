// Pooling of any kind that the models' formats have, in terms of our operators. Channel-first data.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "import/builder.h"

namespace htpipe::compose {

enum class PoolKind : std::uint8_t {
  kMax,
  kAverage,
  kLp,  ///< (sum of |x|^p) ^ (1/p); padding and what lies behind it adds nothing
};

/// One number per spatial axis; an empty list stands for a stride or a dilation of 1 and no padding, a list of one number
/// for that number on every axis.
struct PoolSpec {
  PoolKind kind = PoolKind::kMax;
  std::vector<std::int64_t> kernel = {};
  std::vector<std::int64_t> stride = {};
  std::vector<std::int64_t> pad_begin = {};
  std::vector<std::int64_t> pad_end = {};
  std::vector<std::int64_t> dilation = {};
  /// Rounds the output size up. The last window is dropped when it would begin in the padding at the end, as PyTorch
  /// and onnxruntime do it, unless `keeps_last_window`, as the older texts of ONNX have it.
  bool ceil_mode = false;
  bool keeps_last_window = false;
  /// A mean divides by the cells in the image and its padding, not by those in the image. What a window reaches beyond
  /// the padding with ceil_mode never counts.
  bool count_include_pad = false;
  std::int64_t divisor = 0;  ///< of a mean, instead of a number of cells; 0 = none
  std::int64_t p = 2;
};

/// `input` [n,c,spatial 1..3]. Errors: unsupported-form, shape-mismatch.
Result<Value*> pool(Builder& builder, Value* input, const PoolSpec& spec);

/// Over all spatial axes, which stay with size 1.
Result<Value*> global_pool(Builder& builder, Value* input, PoolKind kind, std::int64_t p = 2);

/// To `sizes` per spatial axis (a number below 0: the size of the input). Output i of an axis sees the inputs from
/// floor(i in / out) to ceil((i + 1) in / out). Maximum or mean.
Result<Value*> adaptive_pool(Builder& builder, Value* input, PoolKind kind, const std::vector<std::int64_t>& sizes);

}  // namespace htpipe::compose
