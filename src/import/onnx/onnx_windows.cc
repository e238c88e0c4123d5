#include "import/onnx/onnx_windows.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace htpipe::onnx_import {
namespace {

constexpr std::int64_t kHighest = 1 << 20;

Result<IntList> numbers(const Call& call, std::string_view name, std::size_t count, std::int64_t fallback,
                        std::int64_t low) {
  HTPIPE_TRY(IntList list, call.ints(name));
  if (list.empty()) list.assign(count, fallback);
  const auto in_range = [low](std::int64_t x) { return x >= low && x <= kHighest; };
  if (list.size() != count || !std::all_of(list.begin(), list.end(), in_range)) {
    return fail(Code::kOnnxInvalid, fmt::format("{} {} where {} numbers from {} up are needed", name,
                                                to_string(Attribute(list)), count, low));
  }
  return list;
}

}  // namespace

Result<AutoPad> auto_pad(const Call& call) {
  HTPIPE_TRY(const std::string mode, call.text("auto_pad", "NOTSET"));
  if (mode == "NOTSET" || mode.empty()) return AutoPad::kNotSet;
  if (mode == "VALID") return AutoPad::kValid;
  if (mode == "SAME_UPPER") return AutoPad::kSameUpper;
  if (mode == "SAME_LOWER") return AutoPad::kSameLower;
  return fail(Code::kOnnxInvalid, fmt::format("auto_pad {}", mode));
}

void split_padding(AutoPad mode, std::int64_t total, std::int64_t& begin, std::int64_t& end) {
  const std::int64_t half = total / 2;
  begin = mode == AutoPad::kSameLower ? total - half : half;
  end = total - begin;
}

Result<Windows> windows_of(const Call& call, const Shape& shape, IntList kernel) {
  if (shape.size() < 3) {
    return fail(Code::kUnsupportedForm, fmt::format("{} has no spatial axes", to_string(shape)));
  }
  const std::size_t axes = shape.size() - 2;
  if (kernel.empty()) {
    HTPIPE_TRY(kernel, call.ints("kernel_shape"));
  }
  const auto bad = [](std::int64_t x) { return x < 1 || x > kHighest; };
  if (kernel.size() != axes || std::any_of(kernel.begin(), kernel.end(), bad)) {
    return fail(Code::kOnnxInvalid, fmt::format("kernel {} over {}", to_string(Attribute(kernel)), to_string(shape)));
  }
  Windows windows;
  windows.kernel = std::move(kernel);
  HTPIPE_TRY(windows.stride, numbers(call, "strides", axes, 1, 1));
  HTPIPE_TRY(windows.dilation, numbers(call, "dilations", axes, 1, 1));
  HTPIPE_TRY(const IntList pads, numbers(call, "pads", 2 * axes, 0, -kHighest));
  HTPIPE_TRY(const AutoPad mode, auto_pad(call));
  windows.pad_begin.assign(axes, 0);
  windows.pad_end.assign(axes, 0);
  for (std::size_t i = 0; i < axes; ++i) {
    if (mode == AutoPad::kNotSet) {
      windows.pad_begin[i] = pads[i];
      windows.pad_end[i] = pads[axes + i];
    } else if (mode != AutoPad::kValid) {
      const std::int64_t in = shape[i + 2];
      const std::int64_t out = (in + windows.stride[i] - 1) / windows.stride[i];
      const std::int64_t reach = windows.dilation[i] * (windows.kernel[i] - 1) + 1;
      const std::int64_t total = std::max<std::int64_t>(0, (out - 1) * windows.stride[i] + reach - in);
      split_padding(mode, total, windows.pad_begin[i], windows.pad_end[i]);
    }
  }
  return windows;
}

}  // namespace htpipe::onnx_import
