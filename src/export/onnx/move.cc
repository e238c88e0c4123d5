// Operators that move elements.
#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "export/onnx/arithmetic.h"
#include "export/onnx/operators.h"

namespace htpipe::onnx_export {
namespace {

/// Blocks of pixels and groups of channels as Reshape, Transpose, Reshape. `sizes` is the operand taken apart.
void rearrange(NodeWriter& out, const std::string& input, const Shape& sizes, const IntList& perm,
               const Shape& result) {
  const std::string apart = out.inner("Reshape", {input, out.integers("apart", sizes)}, "apart_result");
  const std::string turned = out.inner("Transpose", {apart}, "turned", {{"perm", perm}});
  out.emit("Reshape", {turned, out.integers("together", result)});
}

/// [n, c, h, w] of a shape in the node's layout.
Shape channel_first(const NodeWriter& out, const Shape& shape) {
  return is_channel_last(out) ? permute(shape, to_channel_first(4)) : shape;
}

}  // namespace

namespace write {

Status reshape(NodeWriter& out) {
  const Shape& shape = out.result_shape();
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (empty && out.opset() < 14) return out.refuse("a shape with 0 needs opset 14");
  out.emit("Reshape", {out.in(0), out.integers("shape", shape)},
           empty ? Settings{{"allowzero", std::int64_t{1}}} : Settings{});
  return {};
}

Status transpose(NodeWriter& out) {
  out.emit("Transpose", {out.in(0)}, {{"perm", out.attributes().integers("perm")}});
  return {};
}

Status concat(NodeWriter& out) {
  Names inputs;
  for (std::size_t i = 0; i < out.input_count(); ++i) inputs.push_back(out.in(i));
  out.emit("Concat", inputs, {{"axis", out.attributes().integer("axis")}});
  return {};
}

Status strided_slice(NodeWriter& out) {
  const IntList& begin = out.attributes().integers("begin");
  const IntList& end = out.attributes().integers("end");
  const IntList& strides = out.attributes().integers("strides");
  IntList starts, ends, axes, steps;
  for (std::size_t i = 0; i < begin.size(); ++i) {
    if (strides[i] == 1 && begin[i] == 0 && end[i] == out.shape()[i]) continue;
    starts.push_back(begin[i]);
    // -1 would count from the end.
    ends.push_back(strides[i] < 0 && end[i] < 0 ? std::numeric_limits<std::int64_t>::min() : end[i]);
    axes.push_back(static_cast<std::int64_t>(i));
    steps.push_back(strides[i]);
  }
  if (axes.empty()) {
    out.emit("Identity", {out.in(0)});
    return {};
  }
  Names inputs = {out.in(0), out.integers("starts", starts), out.integers("ends", ends), out.integers("axes", axes)};
  const bool dense = std::all_of(steps.begin(), steps.end(), [](std::int64_t step) { return step == 1; });
  if (!dense) inputs.push_back(out.integers("steps", steps));
  out.emit("Slice", inputs);
  return {};
}

Status split(NodeWriter& out) {
  IntList sizes;
  Names results;
  const std::int64_t axis = out.attributes().integer("axis");
  for (std::size_t i = 0; i < out.node().results.size(); ++i) {
    sizes.push_back(out.result_shape(i)[static_cast<std::size_t>(axis)]);
    results.push_back(out.out(i));
  }
  out.writer().node("Split", {out.in(0), out.integers("sizes", sizes)}, results, {{"axis", axis}});
  return {};
}

Status tile(NodeWriter& out) {
  out.emit("Tile", {out.in(0), out.integers("repeats", out.attributes().integers("multiples"))});
  return {};
}

Status depth_to_space(NodeWriter& out) {
  const IntList& block = out.attributes().integers("block_size");
  const bool dcr = out.attributes().text("mode") == "dcr";
  const Shape in = channel_first(out, out.shape());
  const Shape result = channel_first(out, out.result_shape());
  const std::string input = channel_first_input(out);
  if (block[0] == block[1] && out.dtype() == DType::kF32) {
    out.emit("DepthToSpace", {input}, {{"blocksize", block[0]}, {"mode", dcr ? "DCR" : "CRD"}});
  } else if (dcr) {
    rearrange(out, input, {in[0], block[0], block[1], result[1], in[2], in[3]}, {0, 3, 4, 1, 5, 2}, result);
  } else {
    rearrange(out, input, {in[0], result[1], block[0], block[1], in[2], in[3]}, {0, 1, 4, 2, 5, 3}, result);
  }
  return {};
}

Status space_to_depth(NodeWriter& out) {
  const IntList& block = out.attributes().integers("block_size");
  const bool dcr = out.attributes().text("mode") == "dcr";
  const Shape in = channel_first(out, out.shape());
  const Shape result = channel_first(out, out.result_shape());
  const std::string input = channel_first_input(out);
  const Shape apart = {in[0], in[1], result[2], block[0], result[3], block[1]};
  if (dcr && block[0] == block[1] && out.dtype() == DType::kF32) {
    out.emit("SpaceToDepth", {input}, {{"blocksize", block[0]}});
  } else {
    rearrange(out, input, apart, dcr ? IntList{0, 3, 5, 1, 2, 4} : IntList{0, 1, 3, 5, 2, 4}, result);
  }
  return {};
}

Status pad(NodeWriter& out) {
  const std::string& scheme = out.attributes().text("scheme");
  const IntList& amount = out.attributes().integers("pad_amount");
  const bool reflect = scheme == "mirror_reflect";
  bool fits = scheme != "mirror_symmetric" && (scheme != "wrap" || out.opset() >= 19);
  for (std::size_t axis = 0; axis < out.rank(); ++axis) {
    const std::int64_t most = std::max(amount[2 * axis], amount[2 * axis + 1]);
    if ((reflect && most >= out.shape()[axis]) || (scheme == "wrap" && most > out.shape()[axis])) fits = false;
  }
  const DType wide = wide_type(out.dtype());
  if (fits) {
    const bool as_it_is = out.dtype() == DType::kU8 || out.dtype() == DType::kI8 || out.dtype() == DType::kBool;
    const DType dtype = as_it_is ? out.dtype() : wide;
    out.computed_in(dtype);
    Names inputs = {out.cast(0, dtype), out.integers("pads", pads_of(amount))};
    const float value = out.attributes().real("pad_constant_value");
    if (scheme == "constant" && value != 0.0F) inputs.push_back(out.scalar(static_cast<double>(value), dtype));
    out.emit("Pad", inputs, {{"mode", scheme == "mirror_reflect" ? std::string("reflect") : scheme}});
    return {};
  }
  // Every position of the result picks its element.
  std::string from = out.in(0);
  std::vector<std::size_t> padded;
  for (std::size_t axis = 0; axis < out.rank(); ++axis) {
    if (amount[2 * axis] != 0 || amount[2 * axis + 1] != 0) padded.push_back(axis);
  }
  for (const std::size_t axis : padded) {
    const std::int64_t size = out.shape()[axis];
    const std::int64_t period = scheme == "wrap" ? size : reflect ? std::max<std::int64_t>(2 * size - 2, 1) : 2 * size;
    IntList indices;
    for (std::int64_t i = -amount[2 * axis]; i < size + amount[2 * axis + 1]; ++i) {
      const std::int64_t phase = (i % period + period) % period;
      indices.push_back(phase < size ? phase : reflect ? period - phase : period - 1 - phase);
    }
    const Names inputs = {from, out.integers("indices", indices)};
    const Settings settings = {{"axis", static_cast<std::int64_t>(axis)}};
    if (axis == padded.back()) {
      out.emit("Gather", inputs, settings);
    } else {
      from = out.inner("Gather", inputs, "padded", settings);
    }
  }
  return {};
}

Status reverse_sequence(NodeWriter& out) {
  const std::int64_t batch = out.attributes().integer("batch_axis");
  const std::int64_t time = out.attributes().integer("time_axis");
  const std::string lengths = out.cast(1, DType::kI64);
  if (std::max(batch, time) == 1) {
    out.emit("ReverseSequence", {out.in(0), lengths}, {{"batch_axis", batch}, {"time_axis", time}});
    return {};
  }
  IntList perm = {time, batch};
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(out.rank()); ++i) {
    if (i != batch && i != time) perm.push_back(i);
  }
  IntList back(perm.size());
  for (std::size_t i = 0; i < perm.size(); ++i) back[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  out.behind("Transpose", {}, {{"perm", back}});
  out.emit("ReverseSequence", {out.permuted(0, perm), lengths},
           {{"batch_axis", std::int64_t{1}}, {"time_axis", std::int64_t{0}}});
  return {};
}

}  // namespace write
}  // namespace htpipe::onnx_export
