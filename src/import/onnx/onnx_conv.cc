// Convolutions.
#include <fmt/core.h>

#include <algorithm>

#include "import/compose/conv.h"
#include "import/onnx/onnx_fused.h"
#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"
#include "import/onnx/onnx_windows.h"

namespace htpipe::onnx_import::map {
namespace {

Result<IntList> kernel_of(const Value* weight) {
  const Shape& shape = weight->type.shape;
  if (shape.size() < 3) return fail(Code::kShapeMismatch, fmt::format("weights {}", to_string(shape)));
  return IntList(shape.begin() + 2, shape.end());
}

Result<Value*> convolve(Call& call, Builder& builder) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * weight, call.input(1));
  HTPIPE_TRY(IntList kernel, kernel_of(weight));
  HTPIPE_TRY(const Windows windows, windows_of(call, input->type.shape, std::move(kernel)));
  compose::ConvSpec spec;
  spec.stride = windows.stride;
  spec.dilation = windows.dilation;
  spec.pad_begin = windows.pad_begin;
  spec.pad_end = windows.pad_end;
  HTPIPE_TRY(spec.group, call.integer("group", 1));
  return compose::conv(builder, input, weight, call.optional_input(2), spec);
}

}  // namespace

Result<Values> conv(Call& call) { return one(convolve(call, call)); }

Result<Values> conv_transpose(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * weight, call.input(1));
  HTPIPE_TRY(IntList kernel, kernel_of(weight));
  HTPIPE_TRY(Windows windows, windows_of(call, input->type.shape, std::move(kernel)));
  HTPIPE_TRY(const AutoPad mode, auto_pad(call));
  const std::size_t axes = windows.kernel.size();
  compose::ConvSpec spec;
  spec.transposed = true;
  spec.stride = windows.stride;
  spec.dilation = windows.dilation;
  HTPIPE_TRY(spec.group, call.integer("group", 1));
  HTPIPE_TRY(spec.output_padding, call.ints("output_padding"));
  if (spec.output_padding.empty()) spec.output_padding.assign(axes, 0);
  HTPIPE_TRY(IntList output, call.ints("output_shape"));
  // Some writers put the batch and the channels in front.
  if (output.size() == axes + 2) output.erase(output.begin(), output.begin() + 2);
  if (spec.output_padding.size() != axes || (!output.empty() && output.size() != axes)) {
    return fail(Code::kOnnxInvalid, "output_padding or output_shape has not one number per spatial axis");
  }
  const auto too_large = [](std::int64_t x) { return x < 0 || x > (1 << 24); };
  if (std::any_of(output.begin(), output.end(), too_large) ||
      std::any_of(spec.output_padding.begin(), spec.output_padding.end(), too_large)) {
    return fail(Code::kOnnxInvalid, "output_padding or output_shape out of range");
  }
  if (output.empty() && (mode == AutoPad::kSameUpper || mode == AutoPad::kSameLower)) {
    for (std::size_t i = 0; i < axes; ++i) output.push_back(input->type.shape[i + 2] * windows.stride[i]);
  }
  for (std::size_t i = 0; i < axes && !output.empty(); ++i) {
    const std::int64_t reach = windows.dilation[i] * (windows.kernel[i] - 1) + 1;
    const std::int64_t full = windows.stride[i] * (input->type.shape[i + 2] - 1) + spec.output_padding[i] + reach;
    const std::int64_t total = full - output[i];
    if (total >= 0) {
      // ONNX's formula puts the larger half in front unless the mode is SAME_UPPER.
      split_padding(mode == AutoPad::kSameUpper ? mode : AutoPad::kSameLower, total, windows.pad_begin[i],
                    windows.pad_end[i]);
    } else {
      windows.pad_begin[i] = 0;
      windows.pad_end[i] = total;  // zeros at the end
    }
  }
  spec.pad_begin = windows.pad_begin;
  spec.pad_end = windows.pad_end;
  return one(compose::conv(call, input, weight, call.optional_input(2), spec));
}

Result<Values> fused_conv(Call& call) {
  HTPIPE_TRY(const std::string activation, call.text("activation", ""));
  HTPIPE_TRY(const std::vector<float> parameters, call.reals("activation_params"));
  Value* sum = call.optional_input(3);
  Builder inner(call.graph(), call.name() + "_conv", call.source(), nullptr);
  const bool last = activation.empty() && sum == nullptr;
  HTPIPE_TRY(Value * result, convolve(call, last ? static_cast<Builder&>(call) : inner));
  if (sum != nullptr) {
    HTPIPE_TRY(result, call.binary("add", result, sum, activation.empty() ? "" : "sum"));
  }
  return one(fused_activation(call, result, activation, parameters));
}

}  // namespace htpipe::onnx_import::map
