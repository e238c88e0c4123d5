// Convolutions and pooling.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "export/onnx/operators.h"

namespace htpipe::onnx_export {
namespace {

IntList inverse(const IntList& perm) {
  IntList back(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) back[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  return back;
}

/// Weights as the channel-first form has them.
std::string weight_of(NodeWriter& out) {
  return is_channel_last(out) ? out.permuted(1, inverse(out.node().op->weight_to_nhwc)) : out.in(1);
}

Shape weight_shape(const NodeWriter& out) {
  return is_channel_last(out) ? permute(out.shape(1), inverse(out.node().op->weight_to_nhwc)) : out.shape(1);
}

IntList spatial(const Shape& channel_first) { return {channel_first.begin() + 2, channel_first.end()}; }

/// The spatial sizes of a shape in the node's layout.
IntList image_of(const NodeWriter& out, const Shape& shape) {
  const std::ptrdiff_t last = is_channel_last(out) ? 1 : 0;
  return {shape.begin() + 2 - last, shape.end() - last};
}

Status convolution(NodeWriter& out, std::int64_t group) {
  out.activation_behind();
  const Attributes& attributes = out.attributes();
  const std::string input = channel_first_input(out);
  Settings settings = {{"kernel_shape", spatial(weight_shape(out))},
                       {"strides", attributes.integers("stride")},
                       {"pads", pads_of(attributes.integers("pad_amount"))},
                       {"dilations", attributes.integers("dilation")},
                       {"group", group}};
  const std::string weight = weight_of(out);
  const Shape& shape = out.result_shape();
  const std::int64_t channels = shape[is_channel_last(out) ? shape.size() - 1 : 1];
  out.emit("Conv", {input, weight, out.has(2) ? out.reshaped(2, {channels}) : std::string()}, settings);
  return {};
}

Status transpose_convolution(NodeWriter& out) {
  out.activation_behind();
  const Attributes& attributes = out.attributes();
  const std::string input = channel_first_input(out);
  Settings settings = {{"kernel_shape", spatial(weight_shape(out))},
                       {"strides", attributes.integers("stride")},
                       {"pads", pads_of(attributes.integers("pad_amount"))},
                       {"output_padding", attributes.integers("output_padding")},
                       {"group", attributes.integer("group")}};
  const std::string weight = weight_of(out);
  const Shape& shape = out.result_shape();
  const std::int64_t channels = shape[is_channel_last(out) ? shape.size() - 1 : 1];
  out.emit("ConvTranspose", {input, weight, out.has(2) ? out.reshaped(2, {channels}) : std::string()}, settings);
  return {};
}

/// The geometry of a pooling. An output size that is rounded up becomes padding at the end: that says exactly which
/// cells a window has, where programs differ in how they round.
struct Pool {
  IntList filter, stride, dilation;
  IntList pads;      ///< as ONNX has them, with what reaches over the edge
  IntList own_pads;  ///< those of the node
  bool overhangs = false;
  bool dilated = false;

  explicit Pool(const NodeWriter& out)
      : filter(out.attributes().integers("filter_size")), stride(out.attributes().integers("stride")) {
    const std::size_t axes = filter.size();
    const Attribute* given = out.attributes().find("dilation");
    dilation = given == nullptr ? IntList(axes, 1) : std::get<IntList>(*given);
    dilated = std::any_of(dilation.begin(), dilation.end(), [](std::int64_t step) { return step != 1; });
    own_pads = pads = pads_of(out.attributes().integers("pad_amount"));
    const IntList in = image_of(out, out.shape());
    const IntList result = image_of(out, out.result_shape());
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t reach = (result[i] - 1) * stride[i] + (filter[i] - 1) * dilation[i] + 1;
      const std::int64_t after = reach - in[i] - pads[i];
      if (after <= pads[axes + i]) continue;
      pads[axes + i] = after;
      overhangs = true;
    }
  }
  /// Whether padding is as wide as the window, without its dilation.
  [[nodiscard]] bool is_wide() const {
    for (std::size_t i = 0; i < pads.size(); ++i) {
      if (pads[i] >= filter[i % filter.size()]) return true;
    }
    return false;
  }
  [[nodiscard]] Settings settings() const {
    Settings settings = {{"kernel_shape", filter}, {"strides", stride}, {"pads", pads}};
    if (dilated) settings.emplace_back("dilations", dilation);
    return settings;
  }
};

/// The name of an image with something around it; zeros where `value` is empty.
std::string padded(NodeWriter& out, const std::string& input, const IntList& pads, const std::string& value) {
  IntList all(4, 0);
  const auto axes = static_cast<std::ptrdiff_t>(pads.size() / 2);
  all.insert(all.begin() + 2, pads.begin(), pads.begin() + axes);
  all.insert(all.end(), pads.begin() + axes, pads.end());
  return out.inner("Pad", {input, out.integers("pads", all), value}, "padded", {{"mode", "constant"}});
}

/// Adds the mean over windows; `squares` pools the squares and takes the root.
Status mean(NodeWriter& out, bool count_padding, bool squares) {
  Pool pool(out);
  if (pool.dilated && out.opset() < 19)
    return out.refuse(fmt::format("a dilated mean needs opset 19, not {}", out.opset()));
  if (squares) out.behind("Sqrt");
  std::string input = channel_first_input(out);
  if (squares) input = out.inner("Mul", {input, input}, "squares");
  const bool has_padding =
      std::any_of(pool.own_pads.begin(), pool.own_pads.end(), [](std::int64_t p) { return p != 0; });
  if (count_padding && has_padding && pool.overhangs) {
    // Padding counts, what reaches over it does not.
    input = padded(out, input, pool.own_pads, {});
    for (std::size_t i = 0; i < pool.pads.size(); ++i) pool.pads[i] -= pool.own_pads[i];
    count_padding = false;
  }
  if (pool.is_wide()) return out.refuse("padding as wide as the window of a mean");
  Settings settings = pool.settings();
  if (count_padding && has_padding) settings.emplace_back("count_include_pad", std::int64_t{1});
  out.emit("AveragePool", {input}, settings);
  return {};
}

Status maximum(NodeWriter& out) {
  Pool pool(out);
  const DType dtype = out.dtype();
  if (dtype == DType::kI64 || dtype == DType::kU64) return out.refuse("a maximum over windows of 64-bit integers");
  const bool as_it_is = is_float(dtype) || dtype == DType::kI8 || dtype == DType::kU8;
  if (!as_it_is) out.computed_in(DType::kF64);  // which holds every 32-bit integer
  std::string input = channel_first_input(out);
  if (!as_it_is) input = out.inner("Cast", {input}, "wide", {{"to", std::int64_t{data_type_of(DType::kF64)}}});
  if (pool.is_wide()) {
    // ONNX Runtime takes no padding as wide as the window.
    const DType computed = as_it_is ? dtype : DType::kF64;
    const double lowest =
        is_float(computed) ? -std::numeric_limits<double>::infinity() : static_cast<double>(htpipe::lowest(computed));
    input = padded(out, input, pool.pads, out.scalar(lowest, computed));
    std::fill(pool.pads.begin(), pool.pads.end(), 0);
  }
  out.emit("MaxPool", {input}, pool.settings());
  return {};
}

}  // namespace

namespace write {

Status conv2d(NodeWriter& out) { return convolution(out, out.attributes().integer("group")); }
Status conv3d(NodeWriter& out) { return convolution(out, out.attributes().integer("group")); }

Status depth_wise_conv2d(NodeWriter& out) {
  return convolution(out, out.shape()[is_channel_last(out) ? out.rank() - 1 : 1]);
}

Status transpose_conv2d(NodeWriter& out) { return transpose_convolution(out); }
Status transpose_conv3d(NodeWriter& out) { return transpose_convolution(out); }

Status pool_max2d(NodeWriter& out) { return maximum(out); }
Status pool_max3d(NodeWriter& out) { return maximum(out); }
Status pool_avg2d(NodeWriter& out) { return mean(out, out.attributes().flag("count_pad_for_edges"), false); }
Status pool_avg3d(NodeWriter& out) { return mean(out, out.attributes().flag("count_pad_for_edges"), false); }
Status l2_pool2d(NodeWriter& out) { return mean(out, false, true); }

}  // namespace write
}  // namespace htpipe::onnx_export
