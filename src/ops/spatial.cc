#include "ops/spatial.h"

#include <fmt/core.h>

#include <string>
#include <vector>

namespace htpipe::ops {
namespace {

using IntList = std::vector<std::int64_t>;

/// Copies between [n, rows, cols] and [n, cols, rows], the two orders of channels against pixels.
void swap_inner(const float* from, float* to, std::int64_t n, std::int64_t rows, std::int64_t cols) {
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) to[(i * cols + c) * rows + r] = from[(i * rows + r) * cols + c];
    }
  }
}

Result<std::int64_t> output_size(std::int64_t in, std::int64_t before, std::int64_t after, std::int64_t kernel,
                                 std::int64_t dilation, std::int64_t stride, bool ceil) {
  const std::int64_t reach = dilation * (kernel - 1) + 1;
  const std::int64_t room = in + before + after - reach;
  if (room < 0) {
    return fail(Code::kShapeMismatch,
                fmt::format("a window of {} does not fit into {} with padding {}+{}", reach, in, before, after));
  }
  std::int64_t out = (room + (ceil ? stride - 1 : 0)) / stride + 1;
  // With rounding up, a last window that would begin in the end padding is dropped (as PyTorch does).
  if (ceil && (out - 1) * stride >= in + before) --out;
  return out;
}

}  // namespace

AttributeSpec layout_attribute() { return {"data_layout", std::string("nchw"), false, "nchw or nhwc"}; }
AttributeSpec stride_attribute() { return {"stride", IntList{1, 1}, false, "[height, width]"}; }
AttributeSpec pad_attribute() { return {"pad_amount", IntList{0, 0, 0, 0}, false, "[top, bottom, left, right]"}; }
AttributeSpec dilation_attribute() { return {"dilation", IntList{1, 1}, false, "[height, width]"}; }

bool is_nhwc(const Attributes& attributes) { return attributes.text("data_layout") == "nhwc"; }

Result<kernels::Window> make_window(const NodeView& node, std::int64_t kernel_h, std::int64_t kernel_w, bool dilated,
                                    bool ceil) {
  const Shape& shape = node.type(0).shape;
  if (shape.size() != 4) return fail(Code::kShapeMismatch, fmt::format("needs rank 4, got {}", to_string(shape)));
  const std::string& layout = node.attributes.text("data_layout");
  if (layout != "nchw" && layout != "nhwc")
    return fail(Code::kUnsupportedForm, fmt::format("no layout \"{}\"", layout));
  const IntList& stride = node.attributes.integers("stride");
  const IntList& pad = node.attributes.integers("pad_amount");
  const IntList dilation = dilated ? node.attributes.integers("dilation") : IntList{1, 1};
  const auto in_range = [](const IntList& list, std::size_t size, std::int64_t low) {
    if (list.size() != size) return false;
    for (const std::int64_t item : list) {
      if (item < low || item > (1 << 20)) return false;
    }
    return true;
  };
  if (!in_range(stride, 2, 1) || !in_range(pad, 4, 0) || !in_range(dilation, 2, 1) || kernel_h < 1 || kernel_w < 1 ||
      kernel_h > (1 << 20) || kernel_w > (1 << 20)) {
    return fail(Code::kUnsupportedForm, "stride, padding, dilation or kernel size is out of range");
  }
  const bool nhwc = layout == "nhwc";
  kernels::Window window;
  window.n = shape[0];
  window.in_h = shape[nhwc ? 1 : 2];
  window.in_w = shape[nhwc ? 2 : 3];
  window.channels = shape[nhwc ? 3 : 1];
  window.kernel_h = kernel_h;
  window.kernel_w = kernel_w;
  window.stride_h = stride[0];
  window.stride_w = stride[1];
  window.pad_top = pad[0];
  window.pad_left = pad[2];
  window.dilation_h = dilation[0];
  window.dilation_w = dilation[1];
  HTPIPE_TRY(window.out_h, output_size(window.in_h, pad[0], pad[1], kernel_h, dilation[0], stride[0], ceil));
  HTPIPE_TRY(window.out_w, output_size(window.in_w, pad[2], pad[3], kernel_w, dilation[1], stride[1], ceil));
  return window;
}

Result<Tensor> nhwc_weights(const NodeView& node, const std::vector<std::int64_t>& to_nhwc) {
  const Tensor* weight = node.constants[1];
  if (weight == nullptr) return fail(Code::kUnsupportedForm, "weights must be constant");
  return is_nhwc(node.attributes) ? *weight : transpose(*weight, to_nhwc);
}

TensorType window_result(const NodeView& node, const kernels::Window& window, std::int64_t channels) {
  TensorType type;
  type.dtype = node.type(0).dtype;
  if (is_nhwc(node.attributes)) {
    type.shape = {window.n, window.out_h, window.out_w, channels};
  } else {
    type.shape = {window.n, channels, window.out_h, window.out_w};
  }
  return type;
}

Kernel with_layout(const NodeView& node, const kernels::Window& window, std::int64_t out_channels, Kernel kernel) {
  if (is_nhwc(node.attributes)) return kernel;
  const std::int64_t in_count = window.n * window.in_h * window.in_w * window.channels;
  const std::int64_t out_count = window.n * window.out_h * window.out_w * out_channels;
  Kernel wrapped;
  wrapped.scratch_bytes = kernel.scratch_bytes + static_cast<std::size_t>(in_count + out_count) * sizeof(float);
  wrapped.run = [inner = std::move(kernel), window, out_channels, in_count, out_count](const KernelCall& call) {
    auto* in = reinterpret_cast<float*>(call.scratch);
    float* out = in + in_count;
    swap_inner(call.in<float>(0), in, window.n, window.channels, window.in_h * window.in_w);
    std::vector<const void*> operands(call.operands.begin(), call.operands.end());
    operands[0] = in;
    void* results[] = {out};
    inner.run({operands, results, reinterpret_cast<std::byte*>(out + out_count)});
    swap_inner(out, call.out<float>(0), window.n, window.out_h * window.out_w, out_channels);
  };
  return wrapped;
}

}  // namespace htpipe::ops
