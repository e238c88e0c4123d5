#include "ops/pool.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string>

#include "ops/window_call.h"

namespace htpipe::ops {
namespace {

using kernels::Window;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// Cells in image and padding along one axis, by output position.
std::vector<std::int64_t> padded_cells(std::int64_t out, std::int64_t in, std::int64_t before, std::int64_t after,
                                       std::int64_t kernel, std::int64_t stride, std::int64_t dilation) {
  std::vector<std::int64_t> counts(at(out), 0);
  for (std::int64_t i = 0; i < out; ++i) {
    for (std::int64_t k = 0; k < kernel; ++k) {
      if (i * stride - before + k * dilation < in + after) ++counts[at(i)];
    }
  }
  return counts;
}

bool is_dilated(const Attributes& attributes) {
  const auto& dilation = attributes.integers("dilation");
  return std::any_of(dilation.begin(), dilation.end(), [](std::int64_t step) { return step != 1; });
}

/// Cells inside the image along one axis, by output position.
std::vector<std::int64_t> inside_cells(std::int64_t out, std::int64_t in, std::int64_t before, std::int64_t kernel,
                                       std::int64_t stride, std::int64_t dilation) {
  std::vector<std::int64_t> counts(at(out), 0);
  for (std::int64_t i = 0; i < out; ++i) {
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t cell = i * stride - before + k * dilation;
      if (cell >= 0 && cell < in) ++counts[at(i)];
    }
  }
  return counts;
}

void run_integer_max(const Window& window, const KernelCall& call) {
  const auto* in = call.in<std::int64_t>(0);
  auto* out = call.out<std::int64_t>(0);
  const std::int64_t channels = window.channels;
  kernels::for_each_pixel(
      window,
      [&](std::int64_t pixel) {
        std::fill_n(out + pixel * channels, channels, std::numeric_limits<std::int64_t>::lowest());
      },
      [&](std::int64_t pixel, std::int64_t in_pixel, std::int64_t) {
        const std::int64_t* source = in + in_pixel * channels;
        std::int64_t* target = out + pixel * channels;
        for (std::int64_t c = 0; c < channels; ++c) target[c] = std::max(target[c], source[c]);
      },
      [](std::int64_t, std::int64_t) {});
}

}  // namespace

std::vector<AttributeSpec> pool_attributes(std::size_t axes) {
  return {layout_attribute(),
          stride_attribute(axes),
          pad_attribute(axes),
          {"filter_size", std::vector<std::int64_t>(axes, 1), true,
           axes == 2 ? "[height, width]" : "[depth, height, width]"},
          {"rounding_mode", std::string("floor"), false, "of the output size: floor or ceil"},
          dilation_attribute(axes)};
}

Lowering pool_lowering(std::string_view type, bool mean) {
  Lowering lowering;
  lowering.type = type;
  lowering.params = {{"filter_size", "filter_size", ParamKind::kU32List},
                     {"stride", "stride", ParamKind::kU32List},
                     {"pad_amount", "pad_amount", ParamKind::kU32Pairs},
                     {"rounding_mode", "rounding_mode", ParamKind::kEnum, {{"floor", 0}, {"ceil", 1}}, true}};
  if (mean) lowering.params.push_back({"count_pad_for_edges", "count_pad_for_edges", ParamKind::kBool, {}, true});
  lowering.check = [](const NodeView& node) -> Status {
    const Attribute& dilation = *node.attributes.find("dilation");
    if (is_dilated(node.attributes)) {
      return fail(Code::kUnsupportedForm, fmt::format("QNN's pooling has no dilation (here {})", to_string(dilation)));
    }
    return {};
  };
  return lowering;
}

Result<Window> pool_window(const NodeView& node) {
  const auto& size = node.attributes.integers("filter_size");
  const std::string& rounding = node.attributes.text("rounding_mode");
  if (rounding != "floor" && rounding != "ceil") {
    return fail(Code::kUnsupportedForm, "rounding_mode needs floor or ceil");
  }
  return make_window(node, size, rounding == "ceil");
}

Result<std::vector<TensorType>> infer_pool(const NodeView& node, std::size_t axes) {
  if (node.attributes.integers("filter_size").size() != axes) {
    return fail(Code::kUnsupportedForm, fmt::format("filter_size needs {} numbers", axes));
  }
  HTPIPE_TRY(const Window window, pool_window(node));
  return std::vector<TensorType>{window_result(node, window, window.channels)};
}

Status require_no_dilation(const NodeView& node) {
  if (is_dilated(node.attributes)) return fail(Code::kNoFixedRule, "the chip's pooling has no dilation");
  return {};
}

PaddedCells::PaddedCells(const Window& w, const Attributes& attributes) : out_h_(w.out_h), out_w_(w.out_w) {
  const auto& pad = attributes.integers("pad_amount");
  const std::int64_t back = pad.size() == 6 ? pad[1] : 0;
  slices_ = padded_cells(w.out_d, w.in_d, w.pad_front, back, w.kernel_d, w.stride_d, w.dilation_d);
  rows_ = padded_cells(w.out_h, w.in_h, w.pad_top, pad[pad.size() - 3], w.kernel_h, w.stride_h, w.dilation_h);
  columns_ = padded_cells(w.out_w, w.in_w, w.pad_left, pad[pad.size() - 1], w.kernel_w, w.stride_w, w.dilation_w);
}

std::int64_t PaddedCells::operator()(std::int64_t out_pixel) const {
  const std::int64_t line = out_pixel / out_w_;
  return slices_[at(line / out_h_) % slices_.size()] * rows_[at(line % out_h_)] * columns_[at(out_pixel % out_w_)];
}

Result<Kernel> max_pool_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const Window window, pool_window(request.node));
  const DType dtype = request.node.type(0).dtype;
  if (dtype != DType::kF32 && dtype != DType::kI64) {
    return fail(Code::kUnsupportedForm, fmt::format("no maximum of {}", name_of(dtype)));
  }
  Kernel kernel;
  if (dtype == DType::kF32) {
    kernel.run = [window](const KernelCall& call) {
      run_window(window, kernels::WindowSum::kMaximum, nullptr, {}, call);
    };
  } else {
    kernel.run = [window](const KernelCall& call) { run_integer_max(window, call); };
  }
  return with_layout(request.node, window.out_pixels(), window.channels, std::move(kernel));
}

Result<Kernel> mean_pool_kernel(const KernelRequest& request) {
  HTPIPE_CHECK_OK(require_f32(request.node));
  HTPIPE_TRY(const Window w, pool_window(request.node));
  const bool count_padding = request.node.attributes.flag("count_pad_for_edges");
  const PaddedCells padded(w, request.node.attributes);
  const auto slices = inside_cells(w.out_d, w.in_d, w.pad_front, w.kernel_d, w.stride_d, w.dilation_d);
  const auto rows = inside_cells(w.out_h, w.in_h, w.pad_top, w.kernel_h, w.stride_h, w.dilation_h);
  const auto columns = inside_cells(w.out_w, w.in_w, w.pad_left, w.kernel_w, w.stride_w, w.dilation_w);
  std::vector<float> divisors;
  for (std::int64_t pixel = 0; pixel < w.out_pixels(); ++pixel) {
    const std::int64_t line = pixel / w.out_w;
    const std::int64_t cells = slices[at(line / w.out_h)] * rows[at(line % w.out_h)] * columns[at(pixel % w.out_w)];
    divisors.push_back(static_cast<float>(count_padding ? padded(pixel) : cells));
  }
  Kernel kernel;
  kernel.run = [w, divisors](const KernelCall& call) {
    run_window(w, kernels::WindowSum::kSum, nullptr, {}, call);
    float* out = call.out<float>(0);
    for (std::int64_t image = 0; image < w.n; ++image) {
      for (const float divisor : divisors) {
        for (std::int64_t c = 0; c < w.channels; ++c) out[c] /= divisor;
        out += w.channels;
      }
    }
  };
  return with_layout(request.node, w.out_pixels(), w.channels, std::move(kernel));
}

}  // namespace htpipe::ops
