// What ONNX's operators with windows share: kernel_shape, strides, dilations, pads and auto_pad.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "import/onnx/onnx_helpers.h"

namespace htpipe::onnx_import {

/// One number per spatial axis.
struct Windows {
  IntList kernel;
  IntList stride;
  IntList dilation;
  IntList pad_begin;
  IntList pad_end;
};

enum class AutoPad : std::uint8_t { kNotSet, kValid, kSameUpper, kSameLower };
Result<AutoPad> auto_pad(const Call& call);
/// Halves of a padding: the larger one at the end for SAME_UPPER, in front for SAME_LOWER.
void split_padding(AutoPad mode, std::int64_t total, std::int64_t& begin, std::int64_t& end);

/// The attributes of a node over data of `shape` [n, c, spatial...]. `kernel` replaces kernel_shape (a convolution's weights
/// know it). auto_pad is resolved, dilations included. Errors: onnx-invalid, unsupported-form.
Result<Windows> windows_of(const Call& call, const Shape& shape, IntList kernel);

}  // namespace htpipe::onnx_import
