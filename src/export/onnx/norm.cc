// Operators that normalise, and Softmax.
#include <fmt/core.h>

#include <algorithm>

#include "export/onnx/operators.h"

namespace htpipe::onnx_export {
namespace {

std::int64_t channels_of(const NodeWriter& out) { return out.shape()[is_channel_last(out) ? out.rank() - 1 : 1]; }

/// [channels, 1, 1 ...]: a vector that goes along axis 1 of a channel-first value.
Shape along_channels(const NodeWriter& out) {
  Shape shape(out.rank() - 1, 1);
  shape[0] = channels_of(out);
  return shape;
}

/// gamma and beta, operands 1 and 2, in a shape that broadcasts.
void scale_and_shift_behind(NodeWriter& out, const Shape& shape) {
  if (out.has(1)) out.behind("Mul", {out.reshaped(1, shape)});
  if (out.has(2)) out.behind("Add", {out.reshaped(2, shape)});
}

/// Operand 1 or 2 as a vector; where it is absent a vector of `value`.
std::string vector_of(NodeWriter& out, std::size_t operand, std::int64_t count, float value) {
  if (out.has(operand)) return out.reshaped(operand, {count});
  const std::vector<float> values(static_cast<std::size_t>(count), value);
  return out.floats(value == 0.0F ? "zeros" : "ones", {count}, values, out.dtype());
}

/// The sizes of the axes that the attribute names; the others are 1. Leading ones are left out.
Shape sizes_along(const NodeWriter& out, const IntList& axes) {
  const auto first = static_cast<std::size_t>(*std::min_element(axes.begin(), axes.end()));
  Shape shape(out.rank() - first, 1);
  for (const std::int64_t axis : axes)
    shape[static_cast<std::size_t>(axis) - first] = out.shape()[static_cast<std::size_t>(axis)];
  return shape;
}

bool are_trailing(const NodeWriter& out, const IntList& axes) {
  const auto first = static_cast<std::size_t>(*std::min_element(axes.begin(), axes.end()));
  return axes.size() == out.rank() - first;
}

std::string mean_of(NodeWriter& out, const std::string& input, const IntList& axes, std::string_view suffix) {
  Settings settings;
  const Names inputs = out.reduction(input, axes, true, 18, settings);
  return out.inner("ReduceMean", inputs, suffix, settings);
}

/// x / sqrt(mean(squares of x) + epsilon), then gamma and beta.
void divide_by_root(NodeWriter& out, const std::string& x, const IntList& axes) {
  scale_and_shift_behind(out, sizes_along(out, axes));
  const std::string squares = out.inner("Mul", {x, x}, "squares");
  const std::string mean = mean_of(out, squares, axes, "mean_square");
  const auto epsilon = static_cast<double>(out.attributes().real("epsilon"));
  const std::string root =
      out.inner("Sqrt", {out.inner("Add", {mean, out.scalar(epsilon, out.dtype())}, "raised")}, "root");
  out.emit("Div", {x, root});
}

Status softmax_of(NodeWriter& out, std::string_view op_type) {
  const float beta = out.attributes().real("beta");
  std::string input = out.in(0);
  if (beta != 1.0F) input = out.inner("Mul", {input, out.scalar(static_cast<double>(beta), out.dtype())}, "scaled");
  out.emit(op_type, {input}, {{"axis", out.attributes().integer("axis")}});
  return {};
}

/// Lrn by a window that ONNX Runtime's LRN does not have: the mean of the squares over neighbouring rows of an image whose
/// rows are the channels.
void divide_by_neighbours(NodeWriter& out, const Shape& sizes, std::int64_t pixels, std::int64_t before,
                          std::int64_t after) {
  const auto real = [&out](const char* name) { return static_cast<double>(out.attributes().real(name)); };
  const std::int64_t size = before + after + 1;
  const std::string x = channel_first_input(out);
  const std::string squares = out.inner("Mul", {x, x}, "squares");
  const std::string rows =
      out.inner("Reshape", {squares, out.integers("image", {sizes[0], 1, sizes[1], pixels})}, "rows");
  const std::string mean = out.inner("AveragePool", {rows}, "mean",
                                     {{"kernel_shape", IntList{size, 1}},
                                      {"strides", IntList{1, 1}},
                                      {"pads", IntList{before, 0, after, 0}},
                                      {"count_include_pad", std::int64_t{1}}});
  const std::string back = out.inner("Reshape", {mean, out.integers("shape", sizes)}, "mean_square");
  const double factor = real("alpha") * static_cast<double>(size);
  const std::string scaled = out.inner("Mul", {back, out.scalar(factor, out.dtype())}, "scaled");
  const std::string raised = out.inner("Add", {scaled, out.scalar(real("bias"), out.dtype())}, "raised");
  out.emit("Div", {x, out.inner("Pow", {raised, out.scalar(real("beta"), out.dtype())}, "divisor")});
}

}  // namespace

namespace write {

Status softmax(NodeWriter& out) { return softmax_of(out, "Softmax"); }
Status log_softmax(NodeWriter& out) { return softmax_of(out, "LogSoftmax"); }

Status batchnorm(NodeWriter& out) {
  const std::int64_t channels = channels_of(out);
  if (is_channel_last(out)) {
    out.behind("Add", {out.reshaped(2, {channels})});
    out.emit("Mul", {out.in(0), out.reshaped(1, {channels})});
    return {};
  }
  // Mean, variance and epsilon are in weight and bias already.
  const auto count = static_cast<std::size_t>(channels);
  const std::string scale = out.reshaped(1, {channels});
  const std::string shift = out.reshaped(2, {channels});
  const std::string zeros = out.floats("zeros", {channels}, std::vector<float>(count, 0.0F), out.dtype());
  const std::string ones = out.floats("ones", {channels}, std::vector<float>(count, 1.0F), out.dtype());
  out.emit("BatchNormalization", {out.in(0), scale, shift, zeros, ones}, {{"epsilon", 0.0F}});
  return {};
}

Status layer_norm(NodeWriter& out) {
  const IntList& axes = out.attributes().integers("axes");
  const Shape sizes = sizes_along(out, axes);
  if (out.opset() >= 17 && are_trailing(out, axes)) {
    const std::vector<float> values(static_cast<std::size_t>(element_count(sizes)), 1.0F);
    const std::string gamma = out.has(1) ? out.reshaped(1, sizes) : out.floats("ones", sizes, values, out.dtype());
    out.emit("LayerNormalization", {out.in(0), gamma, out.has(2) ? out.reshaped(2, sizes) : std::string()},
             {{"axis", static_cast<std::int64_t>(out.rank() - sizes.size())},
              {"epsilon", out.attributes().real("epsilon")}});
    return {};
  }
  const std::string mean = mean_of(out, out.in(0), axes, "mean");
  divide_by_root(out, out.inner("Sub", {out.in(0), mean}, "centred"), axes);
  return {};
}

Status rms_norm(NodeWriter& out) {
  divide_by_root(out, out.in(0), out.attributes().integers("axes"));
  return {};
}

Status instance_norm(NodeWriter& out) {
  const std::int64_t channels = channels_of(out);
  const std::string gamma = vector_of(out, 1, channels, 1);
  const std::string beta = vector_of(out, 2, channels, 0);
  const std::string input = channel_first_input(out);
  out.emit("InstanceNormalization", {input, gamma, beta}, {{"epsilon", out.attributes().real("epsilon")}});
  return {};
}

Status group_norm(NodeWriter& out) {
  const std::int64_t group = out.attributes().integer("group");
  const std::int64_t channels = channels_of(out);
  const float epsilon = out.attributes().real("epsilon");
  if (out.opset() >= 21 && out.rank() > 2) {
    const std::string gamma = vector_of(out, 1, channels, 1);
    const std::string beta = vector_of(out, 2, channels, 0);
    const std::string input = channel_first_input(out);
    out.emit("GroupNormalization", {input, gamma, beta}, {{"num_groups", group}, {"epsilon", epsilon}});
    return {};
  }
  // Groups as channels of an InstanceNormalization.
  Shape sizes = is_channel_last(out) ? permute(out.shape(), to_channel_first(out.rank())) : out.shape();
  const std::int64_t members = group == 0 || sizes[0] == 0 ? 0 : element_count(sizes) / (sizes[0] * group);
  if (members == 0) return out.refuse("a value without elements");
  out.behind("Reshape", {out.integers("shape", sizes)});
  scale_and_shift_behind(out, along_channels(out));
  const std::string input = channel_first_input(out);
  const std::string apart =
      out.inner("Reshape", {input, out.integers("apart", {sizes[0], group, members})}, "apart_result");
  const auto count = static_cast<std::size_t>(group);
  const std::string ones = out.floats("ones", {group}, std::vector<float>(count, 1.0F), out.dtype());
  const std::string zeros = out.floats("zeros", {group}, std::vector<float>(count, 0.0F), out.dtype());
  out.emit("InstanceNormalization", {apart, ones, zeros}, {{"epsilon", epsilon}});
  return {};
}

Status l2_norm(NodeWriter& out) {
  Settings settings;
  const Names inputs = out.reduction(out.in(0), out.attributes().integers("axes"), true, 18, settings);
  const std::string norm = out.inner("ReduceL2", inputs, "norm", settings);
  const auto epsilon = static_cast<double>(out.attributes().real("epsilon"));
  out.emit("Div", {out.in(0), out.inner("Max", {norm, out.scalar(epsilon, out.dtype())}, "divisor")});
  return {};
}

Status lrn(NodeWriter& out) {
  const Attributes& attributes = out.attributes();
  const std::int64_t before = attributes.integer("radius");
  const std::int64_t asked = attributes.integer("radius_after");
  const std::int64_t after = asked < 0 ? before : asked;
  const std::int64_t size = before + after + 1;
  const Settings settings = {{"size", size},
                             {"alpha", attributes.real("alpha") * static_cast<float>(size)},
                             {"beta", attributes.real("beta")},
                             {"bias", attributes.real("bias")}};
  const Shape sizes = is_channel_last(out) ? permute(out.shape(), to_channel_first(out.rank())) : out.shape();
  const std::int64_t pixels = element_count(Shape(sizes.begin() + 2, sizes.end()));
  if (before != after) {
    divide_by_neighbours(out, sizes, pixels, before, after);
    return {};
  }
  // ONNX Runtime takes images only.
  if (out.rank() != 4) out.behind("Reshape", {out.integers("shape", sizes)});
  const std::string input = channel_first_input(out);
  if (out.rank() == 4) {
    out.emit("LRN", {input}, settings);
    return {};
  }
  const std::string image =
      out.inner("Reshape", {input, out.integers("image", {sizes[0], sizes[1], pixels, 1})}, "rows");
  out.emit("LRN", {image}, settings);
  return {};
}

}  // namespace write
}  // namespace htpipe::onnx_export
