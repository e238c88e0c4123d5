#include "ops/depth_wise_form.h"

#include <fmt/core.h>

#include <algorithm>

namespace htpipe::ops {
namespace {

using kernels::ConvForm;
using kernels::Window;

struct Layer {
  const Window& window;
  bool wide;  ///< 16-bit activations
  bool deep;  ///< 16-bit weights
  bool v68;
  bool per_tensor;  ///< one scale for all weights

  [[nodiscard]] bool kernel(std::int64_t h, std::int64_t w) const {
    return window.kernel_h == h && window.kernel_w == w;
  }
  [[nodiscard]] bool stride(std::int64_t h, std::int64_t w) const {
    return window.stride_h == h && window.stride_w == w;
  }
  [[nodiscard]] std::int64_t shorter() const { return std::min(window.kernel_h, window.kernel_w); }
  [[nodiscard]] std::int64_t longer() const { return std::max(window.kernel_h, window.kernel_w); }
};

Result<ConvForm> unit_stride(const Layer& layer) {
  if (!layer.kernel(1, 1)) return ConvForm::kStandard;
  const bool single = layer.window.channels == 1;
  if (layer.deep) return ConvForm::kExact;
  if (layer.wide) {
    if (!layer.per_tensor) return ConvForm::kNoShift;
    if (single) return ConvForm::kStandard;
    return fail(Code::kNoFixedRule, "the emulator computes 16-bit 1x1 layers with one scale for all weights wrong");
  }
  if (!layer.v68 || single) return ConvForm::kStandard;
  if (layer.per_tensor) {
    return fail(Code::kNoFixedRule, "the emulator of v68 computes 1x1 layers with one scale for all weights wrong");
  }
  return ConvForm::kExact;
}

Result<ConvForm> stride_two(const Layer& layer) {
  if (layer.deep) {
    if (layer.kernel(1, 1))
      return fail(Code::kNoFixedRule, "the chip has no 1x1 kernel with 16-bit weights and stride 2");
    return ConvForm::kStandard;
  }
  if (layer.kernel(1, 1) || layer.kernel(2, 2)) {
    const std::int64_t rest = layer.window.channels % 32;
    if (!layer.wide && !layer.v68 && rest >= 1 && rest <= 4) {
      return fail(Code::kNoFixedRule,
                  fmt::format("the emulator computes {} channels with such a kernel and stride 2 wrong",
                              layer.window.channels));
    }
    if (layer.kernel(1, 1) || !layer.v68) return ConvForm::kStandard;
    return layer.wide ? ConvForm::kNoShift : ConvForm::kExact;
  }
  if (layer.wide) {
    if (layer.kernel(4, 4)) return ConvForm::kStandard;
    return layer.shorter() == layer.longer() && layer.longer() <= 7 ? ConvForm::kNoShift : ConvForm::kExact;
  }
  if (layer.longer() > 7) {
    if (layer.shorter() < 3) return fail(Code::kNoFixedRule, "a long thin kernel with stride 2");
    return ConvForm::kStandard;
  }
  return layer.shorter() >= 3 ? ConvForm::kNoShift : ConvForm::kExact;
}

Result<ConvForm> dilated(const Layer& layer) {
  const Window& window = layer.window;
  if (layer.stride(1, 1)) {
    if (!layer.kernel(1, 1)) return ConvForm::kStandard;
    return layer.wide || layer.v68 ? ConvForm::kExact : ConvForm::kStandard;
  }
  const bool known = layer.stride(2, 2) && layer.kernel(3, 3) && window.dilation_h == 2 && window.dilation_w == 2;
  if (!known || layer.deep) return fail(Code::kNoFixedRule, "the chip has no dilated kernel with such strides");
  return ConvForm::kNoShift;
}

}  // namespace

Result<ConvForm> depth_wise_form(const Window& window, std::int64_t multiplier, const TensorType& input,
                                 const TensorType& weight, int htp_version) {
  const bool per_tensor = weight.encoding && weight.encoding->per_tensor();
  const Layer layer = {window, size_of(input.dtype) == 2, size_of(weight.dtype) == 2, htp_version < 73, per_tensor};
  const bool has_dilation = window.dilation_h > 1 || window.dilation_w > 1;
  if (window.channels == 1 && !(layer.kernel(1, 1) && layer.wide)) return ConvForm::kStandard;
  if (multiplier > 1) {
    if (layer.stride(1, 1) ? has_dilation : !layer.stride(2, 2)) {
      return fail(Code::kNoFixedRule, "the emulator computes channel multipliers with such strides or dilation wrong");
    }
    if (has_dilation) HTPIPE_CHECK_OK(dilated(layer));
    return ConvForm::kExact;
  }
  if (has_dilation) return dilated(layer);
  if (layer.stride(1, 1)) return unit_stride(layer);
  if (layer.stride(2, 2)) return stride_two(layer);
  if (layer.stride(3, 3)) return ConvForm::kStandard;
  if (layer.stride(1, 2) || layer.stride(2, 1)) {
    if (!layer.kernel(1, 1)) return ConvForm::kStandard;
    return layer.wide || layer.v68 ? ConvForm::kExact : ConvForm::kStandard;
  }
  if (layer.stride(4, 4) && layer.kernel(3, 3)) {
    if (layer.deep) return fail(Code::kNoFixedRule, "the chip has no 3x3 kernel with 16-bit weights and stride 4");
    return ConvForm::kStandard;
  }
  return ConvForm::kExact;
}

}  // namespace htpipe::ops
