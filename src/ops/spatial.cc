#include "ops/spatial.h"

#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "ops/copy_call.h"

namespace htpipe::ops {
namespace {

using IntList = std::vector<std::int64_t>;

constexpr std::int64_t kLargest = 1 << 20;  ///< of a kernel, a stride, a padding

/// The copy of [n, rows, columns] to [n, columns, rows], the two orders of channels against pixels.
kernels::StridedCopy swap_of(std::int64_t n, std::int64_t rows, std::int64_t columns, std::size_t element) {
  return {{{n, rows * columns, rows * columns}, {columns, 1, rows}, {rows, columns, 1}}, element};
}

Result<std::int64_t> output_size(std::int64_t in, std::int64_t before, std::int64_t after, std::int64_t kernel,
                                 std::int64_t dilation, std::int64_t stride, bool ceil) {
  const std::int64_t reach = dilation * (kernel - 1) + 1;
  const std::int64_t room = in + before + after - reach + (ceil ? stride - 1 : 0);
  if (room < 0) {
    return fail(Code::kShapeMismatch,
                fmt::format("a window of {} does not fit into {} with padding {}+{}", reach, in, before, after));
  }
  std::int64_t out = room / stride + 1;
  // With rounding up, a last window that would begin in the end padding is dropped (as PyTorch does).
  if (ceil && (out - 1) * stride >= in + before) --out;
  return out;
}

bool in_range(const IntList& list, std::size_t size, std::int64_t low) {
  if (list.size() != size) return false;
  for (const std::int64_t item : list) {
    if (item < low || item > kLargest) return false;
  }
  return true;
}

/// Everything of the window but the output sizes. An operator without the attribute dilation has none.
Result<kernels::Window> geometry(const NodeView& node, const IntList& kernel) {
  const Shape& shape = node.type(0).shape;
  const std::size_t axes = kernel.size();
  if (shape.size() != axes + 2) {
    return fail(Code::kShapeMismatch, fmt::format("needs rank {}, got {}", axes + 2, to_string(shape)));
  }
  const std::string& layout = node.attributes.text("data_layout");
  if (layout != "nchw" && layout != "nhwc")
    return fail(Code::kUnsupportedForm, fmt::format("no layout \"{}\"", layout));
  const IntList& stride = node.attributes.integers("stride");
  const IntList& pad = node.attributes.integers("pad_amount");
  const bool dilated = node.attributes.find("dilation") != nullptr;
  const IntList dilation = dilated ? node.attributes.integers("dilation") : IntList(axes, 1);
  if (!in_range(stride, axes, 1) || !in_range(pad, 2 * axes, 0) || !in_range(dilation, axes, 1) ||
      !in_range(kernel, axes, 1)) {
    return fail(Code::kUnsupportedForm, "stride, padding, dilation or kernel size is out of range");
  }
  const bool nhwc = layout == "nhwc";
  const IntList sizes = spatial_sizes(shape, nhwc);
  kernels::Window window;
  window.n = shape[0];
  window.channels = channels_of(shape, nhwc);
  const std::size_t h = axes - 2;
  const std::size_t w = axes - 1;
  if (axes == 3) {
    window.in_d = sizes[0];
    window.kernel_d = kernel[0];
    window.stride_d = stride[0];
    window.pad_front = pad[0];
    window.dilation_d = dilation[0];
  }
  window.in_h = sizes[h];
  window.in_w = sizes[w];
  window.kernel_h = kernel[h];
  window.kernel_w = kernel[w];
  window.stride_h = stride[h];
  window.stride_w = stride[w];
  window.pad_top = pad[2 * h];
  window.pad_left = pad[2 * w];
  window.dilation_h = dilation[h];
  window.dilation_w = dilation[w];
  return window;
}

AttributeSpec list_attribute(std::string_view name, std::size_t count, std::int64_t value, std::string_view doc) {
  return {name, IntList(count, value), false, doc};
}

}  // namespace

AttributeSpec layout_attribute() { return {"data_layout", std::string("nchw"), false, "nchw or nhwc"}; }
AttributeSpec stride_attribute(std::size_t axes) {
  return list_attribute("stride", axes, 1, axes == 2 ? "[height, width]" : "[depth, height, width]");
}
AttributeSpec pad_attribute(std::size_t axes) {
  return list_attribute("pad_amount", 2 * axes, 0,
                        axes == 2 ? "[top, bottom, left, right]" : "[front, back, top, bottom, left, right]");
}
AttributeSpec dilation_attribute(std::size_t axes) {
  return list_attribute("dilation", axes, 1, axes == 2 ? "[height, width]" : "[depth, height, width]");
}

bool is_nhwc(const Attributes& attributes) { return attributes.text("data_layout") == "nhwc"; }

IntList spatial_sizes(const Shape& shape, bool nhwc) {
  return nhwc ? IntList(shape.begin() + 1, shape.end() - 1) : IntList(shape.begin() + 2, shape.end());
}

std::int64_t channels_of(const Shape& shape, bool nhwc) { return nhwc ? shape.back() : shape[1]; }

Result<kernels::Window> make_window(const NodeView& node, const IntList& kernel, bool ceil) {
  HTPIPE_TRY(kernels::Window window, geometry(node, kernel));
  const IntList& pad = node.attributes.integers("pad_amount");
  const std::size_t h = 2 * (kernel.size() - 2);
  if (kernel.size() == 3) {
    HTPIPE_TRY(window.out_d,
               output_size(window.in_d, pad[0], pad[1], window.kernel_d, window.dilation_d, window.stride_d, ceil));
  }
  HTPIPE_TRY(window.out_h,
             output_size(window.in_h, pad[h], pad[h + 1], window.kernel_h, window.dilation_h, window.stride_h, ceil));
  HTPIPE_TRY(window.out_w, output_size(window.in_w, pad[h + 2], pad[h + 3], window.kernel_w, window.dilation_w,
                                       window.stride_w, ceil));
  return window;
}

Result<kernels::Window> make_transposed_window(const NodeView& node, const IntList& kernel, std::int64_t channels) {
  HTPIPE_TRY(kernels::Window window, geometry(node, kernel));
  const std::size_t axes = kernel.size();
  const IntList& stride = node.attributes.integers("stride");
  const IntList& pad = node.attributes.integers("pad_amount");
  const IntList& extra = node.attributes.integers("output_padding");
  if (!in_range(extra, axes, 0)) return fail(Code::kUnsupportedForm, "output_padding is out of range");
  const IntList sizes = spatial_sizes(node.type(0).shape, is_nhwc(node.attributes));
  IntList made(axes);
  for (std::size_t i = 0; i < axes; ++i) {
    // Two factors of 20 and 31 bits: no overflow.
    if (sizes[i] < 1 || sizes[i] > (std::int64_t{1} << 31)) {
      return fail(Code::kShapeMismatch, fmt::format("{} has an empty image", to_string(node.type(0).shape)));
    }
    made[i] = (sizes[i] - 1) * stride[i] - pad[2 * i] - pad[2 * i + 1] + kernel[i] + extra[i];
    if (made[i] < 1) {
      return fail(Code::kShapeMismatch, fmt::format("padding {}+{} leaves nothing of {}", pad[2 * i], pad[2 * i + 1],
                                                    to_string(node.type(0).shape)));
    }
  }
  window.out_d = std::exchange(window.in_d, axes == 3 ? made[0] : 1);
  window.out_h = std::exchange(window.in_h, made[axes - 2]);
  window.out_w = std::exchange(window.in_w, made[axes - 1]);
  window.channels = channels;
  return window;
}

Status check_products(const NodeView& node) {
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (!node.has(i) || is_float(node.type(i).dtype) || node.type(i).encoding) continue;
    return fail(Code::kDtypeMismatch,
                fmt::format("operand {} is {} without an encoding", i, name_of(node.type(i).dtype)));
  }
  return {};
}

Status require_f32(const NodeView& node) {
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (!node.has(i) || node.type(i).dtype == DType::kF32) continue;
    return fail(Code::kUnsupportedForm, fmt::format("no rule for operands of {}", name_of(node.type(i).dtype)));
  }
  return {};
}

Result<Tensor> nhwc_weights(const NodeView& node, const std::vector<std::int64_t>& to_nhwc) {
  const Tensor* weight = node.constants[1];
  if (weight == nullptr) return fail(Code::kUnsupportedForm, "weights must be constant");
  return is_nhwc(node.attributes) ? *weight : transpose(*weight, to_nhwc);
}

TensorType window_result(const NodeView& node, const kernels::Window& window, std::int64_t channels) {
  Shape sizes = {window.out_h, window.out_w};
  if (node.type(0).shape.size() == 5) sizes.insert(sizes.begin(), window.out_d);
  const bool nhwc = is_nhwc(node.attributes);
  Shape shape = {window.n};
  if (!nhwc) shape.push_back(channels);
  shape.insert(shape.end(), sizes.begin(), sizes.end());
  if (nhwc) shape.push_back(channels);
  return {node.type(0).dtype, std::move(shape), std::nullopt};
}

Kernel with_layout(const NodeView& node, std::int64_t out_pixels, std::int64_t out_channels, Kernel kernel) {
  if (is_nhwc(node.attributes)) return kernel;
  const TensorType& type = node.type(0);
  const std::int64_t n = type.shape[0];
  const std::int64_t in_channels = type.shape[1];
  std::int64_t in_pixels = 1;
  for (const std::int64_t size : spatial_sizes(type.shape, false)) in_pixels *= size;
  const std::size_t element = size_of(type.dtype);
  Kernel wrapped;
  wrapped.lane_scratch_bytes = kernel.lane_scratch_bytes;
  wrapped.scratch_bytes = kernel.scratch_bytes +
                          static_cast<std::size_t>(n * (in_pixels * in_channels + out_pixels * out_channels)) * element;
  const auto in_bytes = static_cast<std::size_t>(n * in_pixels * in_channels) * element;
  const auto out_bytes = static_cast<std::size_t>(n * out_pixels * out_channels) * element;
  wrapped.run = [=, inner = std::move(kernel), to_last = swap_of(n, in_channels, in_pixels, element),
                 to_first = swap_of(n, out_pixels, out_channels, element)](const KernelCall& call) {
    std::byte* in = call.scratch;
    std::byte* out = in + in_bytes;
    share_copy(call, to_last, call.operands[0], in);
    std::vector<const void*> operands(call.operands.begin(), call.operands.end());
    operands[0] = in;
    void* results[] = {out};
    inner.run({operands, results, out + out_bytes, call.lanes});
    share_copy(call, to_first, out, call.results[0]);
  };
  return wrapped;
}

}  // namespace htpipe::ops
