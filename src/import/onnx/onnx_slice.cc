// Parts of tensors, and tensors with more around them.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// Begin, end and step of each axis, as StridedSlice takes them.
struct Ranges {
  explicit Ranges(const Shape& shape) : begin(shape.size(), 0), end(shape), steps(shape.size(), 1) {}
  IntList begin;
  IntList end;
  IntList steps;

  [[nodiscard]] bool take_all(const Shape& shape) const {
    return end == shape && std::all_of(begin.begin(), begin.end(), [](std::int64_t x) { return x == 0; }) &&
           std::all_of(steps.begin(), steps.end(), [](std::int64_t x) { return x == 1; });
  }
};

Result<Value*> take(Call& call, Value* input, const Ranges& ranges, std::string_view suffix = {}) {
  if (ranges.take_all(input->type.shape)) return input;
  return call.add("StridedSlice", {{"begin", ranges.begin}, {"end", ranges.end}, {"strides", ranges.steps}}, {input},
                  suffix);
}

/// Counted from the end when negative, then cut to [low, high].
std::int64_t cut(std::int64_t position, std::int64_t size, std::int64_t low, std::int64_t high) {
  if (position < 0) position = position < -size ? low : position + size;
  return std::clamp(position, low, high);
}

/// How many elements Pad puts before and after each axis; negative ones are taken away.
struct Padding {
  IntList before;
  IntList after;
};

Result<Padding> padding_of(Call& call, std::size_t rank) {
  IntList pads;
  IntList axes = count_up(0, static_cast<std::int64_t>(rank));
  if (call.opset() >= 11) {
    HTPIPE_TRY(pads, call.integers_input(1));
    if (call.has(3)) {
      HTPIPE_TRY(axes, call.integers_input(3));
    }
  } else {
    HTPIPE_TRY(pads, call.ints("pads"));
  }
  if (pads.size() != 2 * axes.size()) {
    return fail(Code::kOnnxInvalid, fmt::format("pads {} for {} axes", to_string(pads), axes.size()));
  }
  Padding padding = {IntList(rank, 0), IntList(rank, 0)};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    HTPIPE_TRY(const std::int64_t axis, normal_axis(axes[i], rank));
    padding.before[static_cast<std::size_t>(axis)] = pads[i];
    padding.after[static_cast<std::size_t>(axis)] = pads[i + axes.size()];
  }
  return padding;
}

Result<double> fill_of(Call& call, DType dtype) {
  if (call.opset() < 11) {
    HTPIPE_TRY(const float value, call.real("value", 0.0F));
    return static_cast<double>(value);
  }
  if (!call.has(2)) return 0.0;
  HTPIPE_TRY(const double value, number_input(call, 2));
  const auto limit = static_cast<double>(std::numeric_limits<float>::max());
  const bool exact = static_cast<double>(static_cast<float>(std::clamp(value, -limit, limit))) == value;
  if (is_integer(dtype) && !exact) return fail(Code::kUnsupportedForm, fmt::format("Pad with {}", value));
  return value;
}

Result<Value*> padded(Call& call, Value* input, const Padding& padding, const std::string& scheme, double value) {
  IntList amounts;
  for (std::size_t axis = 0; axis < padding.before.size(); ++axis) {
    amounts.push_back(std::max<std::int64_t>(padding.before[axis], 0));
    amounts.push_back(std::max<std::int64_t>(padding.after[axis], 0));
  }
  if (std::all_of(amounts.begin(), amounts.end(), [](std::int64_t n) { return n == 0; })) return input;
  return call.add(
      "Pad", {{"scheme", scheme}, {"pad_amount", amounts}, {"pad_constant_value", static_cast<float>(value)}}, {input});
}

/// Takes away what negative amounts say.
Result<Value*> cropped(Call& call, Value* input, const Padding& padding) {
  Ranges ranges(input->type.shape);
  for (std::size_t axis = 0; axis < padding.before.size(); ++axis) {
    const std::int64_t size = input->type.shape[axis];
    ranges.begin[axis] = -std::clamp<std::int64_t>(padding.before[axis], -size, 0);
    ranges.end[axis] = size + std::clamp<std::int64_t>(padding.after[axis], -size, 0);
    if (ranges.begin[axis] > ranges.end[axis]) {
      return fail(Code::kUnsupportedForm, fmt::format("more is taken away than axis {} has", axis));
    }
  }
  return take(call, input, ranges, "cropped");
}

Result<std::int64_t> block_size(Call& call) {
  HTPIPE_TRY(const std::int64_t block, call.integer("blocksize"));
  if (block < 1) return fail(Code::kOnnxInvalid, fmt::format("blocksize {}", block));
  return block;
}

Result<Values> block_move(Call& call, std::string_view op) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const std::int64_t block, block_size(call));
  HTPIPE_TRY(std::string mode, call.text("mode", "DCR"));
  if (mode != "DCR" && mode != "CRD") return fail(Code::kOnnxInvalid, "mode " + mode);
  mode = mode == "DCR" ? "dcr" : "crd";
  return one(call.add(op, {{"block_size", IntList{block, block}}, {"mode", mode}}, {input}));
}

}  // namespace

Result<Values> slice(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  const Shape& shape = input->type.shape;
  IntList starts;
  IntList ends;
  IntList axes;
  IntList steps;
  if (call.opset() >= 10) {
    HTPIPE_TRY(starts, call.integers_input(1));
    HTPIPE_TRY(ends, call.integers_input(2));
    if (call.has(3)) {
      HTPIPE_TRY(axes, call.integers_input(3));
    }
    if (call.has(4)) {
      HTPIPE_TRY(steps, call.integers_input(4));
    }
  } else {
    HTPIPE_TRY(starts, call.ints("starts"));
    HTPIPE_TRY(ends, call.ints("ends"));
    HTPIPE_TRY(axes, call.ints("axes"));
  }
  if (axes.empty() && !starts.empty()) axes = count_up(0, static_cast<std::int64_t>(starts.size()));
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size()) {
    return fail(Code::kOnnxInvalid, "starts, ends, axes and steps differ in length");
  }
  Ranges ranges(shape);
  for (std::size_t i = 0; i < starts.size(); ++i) {
    HTPIPE_TRY(const std::int64_t axis, normal_axis(axes[i], shape.size()));
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t size = shape[at];
    if (steps[i] == 0) return fail(Code::kOnnxInvalid, "a step of 0");
    const bool forward = steps[i] > 0;
    ranges.begin[at] = forward ? cut(starts[i], size, 0, size) : cut(starts[i], size, -1, size - 1);
    ranges.end[at] = forward ? cut(ends[i], size, 0, size) : cut(ends[i], size, -1, size - 1);
    ranges.steps[at] = steps[i];
  }
  return one(take(call, input, ranges));
}

Result<Values> pad(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const std::string mode, call.text("mode", "constant"));
  HTPIPE_TRY(const Padding padding, padding_of(call, input->type.shape.size()));
  std::string scheme = mode;
  if (mode == "reflect") scheme = "mirror_reflect";
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    return fail(Code::kUnsupportedForm, "Pad with mode " + mode);
  }
  double value = 0;
  if (mode == "constant") {
    HTPIPE_TRY(value, fill_of(call, input->type.dtype));
  }
  HTPIPE_TRY(Value * rest, cropped(call, input, padding));
  return one(padded(call, rest, padding, scheme, value));
}

Result<Values> center_crop_pad(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const IntList target, call.integers_input(1));
  const std::size_t rank = input->type.shape.size();
  HTPIPE_TRY(const IntList axes, call.ints("axes", count_up(0, static_cast<std::int64_t>(rank))));
  if (axes.size() != target.size()) return fail(Code::kOnnxInvalid, "CenterCropPad: sizes and axes differ in number");
  Ranges ranges(input->type.shape);
  Padding padding = {IntList(rank, 0), IntList(rank, 0)};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    HTPIPE_TRY(const std::int64_t axis, normal_axis(axes[i], rank));
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t more = target[i] - input->type.shape[at];
    if (target[i] < 0) return fail(Code::kOnnxInvalid, "CenterCropPad to a negative size");
    if (more < 0) {
      ranges.begin[at] = -more / 2;
      ranges.end[at] = ranges.begin[at] + target[i];
    } else {
      padding.before[at] = more / 2;
      padding.after[at] = more - more / 2;
    }
  }
  HTPIPE_TRY(Value * center, take(call, input, ranges, "cropped"));
  return one(padded(call, center, padding, "constant", 0));
}

Result<Values> depth_to_space(Call& call) { return block_move(call, "DepthToSpace"); }
Result<Values> space_to_depth(Call& call) { return block_move(call, "SpaceToDepth"); }

}  // namespace htpipe::onnx_import::map
