// Convolutions of any kind that the models' formats have, in terms of our operators. Channel-first data.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "import/builder.h"

namespace htpipe::compose {

/// One number per spatial axis; an empty list stands for no stride, padding, dilation or output padding, a list of one
/// number for that number on every axis.
struct ConvSpec {
  std::vector<std::int64_t> stride = {};
  std::vector<std::int64_t> pad_begin = {};
  std::vector<std::int64_t> pad_end = {};
  std::vector<std::int64_t> dilation = {};
  std::vector<std::int64_t> output_padding = {};  ///< transposed only
  std::int64_t group = 1;
  bool transposed = false;
};

/// `input` [n,c,spatial 1..3]; `weight` [out,in/group,...], transposed [in,out/group,...], constant or computed; `bias`
/// [out] or null. Padding may be negative and is cropping then (of the input; transposed: a larger result).
/// Errors: unsupported-form, shape-mismatch.
Result<Value*> conv(Builder& builder, Value* input, Value* weight, Value* bias, const ConvSpec& spec);

}  // namespace htpipe::compose
