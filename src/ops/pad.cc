// Pad: elements put before and after along each axis. Source: QNN operator Pad; the scheme wrap is ours.
#include <fmt/core.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/fixed/elementwise.h"
#include "kernels/strided_copy.h"
#include "ops/element.h"
#include "ops/movement.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

using IntList = std::vector<std::int64_t>;

constexpr std::int64_t kMaxPad = std::int64_t{1} << 40;

bool is_scheme(const std::string& scheme) {
  for (const char* known : {"constant", "mirror_symmetric", "mirror_reflect", "edge", "wrap"}) {
    if (scheme == known) return true;
  }
  return false;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const std::string& scheme = node.attributes.text("scheme");
  const IntList& pad = node.attributes.integers("pad_amount");
  Shape shape = node.type(0).shape;
  if (!is_scheme(scheme)) return fail(Code::kUnsupportedForm, fmt::format("no scheme \"{}\"", scheme));
  if (pad.size() != 2 * shape.size()) {
    return fail(Code::kUnsupportedForm, fmt::format("pad_amount {} of {}", to_string(pad), to_string(shape)));
  }
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::int64_t before = pad[2 * axis];
    const std::int64_t after = pad[2 * axis + 1];
    if (before < 0 || after < 0 || before > kMaxPad || after > kMaxPad) {
      return fail(Code::kUnsupportedForm, fmt::format("pad_amount {}", to_string(pad)));
    }
    if (scheme != "constant" && shape[axis] == 0 && before + after > 0) {
      return fail(Code::kUnsupportedForm,
                  fmt::format("nothing to repeat along axis {} of {}", axis, to_string(node.type(0).shape)));
    }
    shape[axis] += before + after;
  }
  return std::vector<TensorType>{reshaped(node, 0, std::move(shape))};
}

/// The element of an axis of `size` that stands at `position`, which may lie outside, however far.
std::int64_t source_of(const std::string& scheme, std::int64_t position, std::int64_t size) {
  if (position >= 0 && position < size) return position;
  if (scheme == "edge" || size == 1) return position < 0 ? 0 : size - 1;
  const bool reflect = scheme == "mirror_reflect";
  const std::int64_t period = scheme == "wrap" ? size : reflect ? 2 * size - 2 : 2 * size;
  const std::int64_t phase = (position % period + period) % period;
  if (phase < size) return phase;
  return reflect ? period - phase : period - 1 - phase;
}

/// The operand's place within the result.
kernels::StridedCopy inner_copy(const KernelRequest& request) {
  const TensorType& in = request.node.type(0);
  const IntList& pad = request.node.attributes.integers("pad_amount");
  const IntList from = kernels::strides_of(in.shape);
  const IntList to = kernels::strides_of(request.results[0]->shape);
  std::vector<kernels::StridedCopy::Axis> axes;
  std::int64_t offset = 0;
  for (std::size_t axis = 0; axis < in.shape.size(); ++axis) {
    axes.push_back({in.shape[axis], from[axis], to[axis]});
    offset += pad[2 * axis] * to[axis];
  }
  return {axes, size_of(in.dtype), 0, offset};
}

/// A position of the result along one axis, in elements, and the one that it repeats.
struct Repeat {
  std::int64_t to;
  std::int64_t from;
};

/// After the operand stands in its place: axis by axis, the hyperplanes outside it are copies of those inside. Axes in
/// front of `axis` are still as long as the operand, those behind it are filled already.
struct Border {
  std::vector<Repeat> repeats;
  kernels::StridedCopy plane;
};

Result<Kernel> constant_kernel(const KernelRequest& request) {
  const TensorType& out = *request.results[0];
  HTPIPE_TRY(const Element value,
             element_of(static_cast<double>(request.node.attributes.real("pad_constant_value")), out));
  Kernel kernel;
  kernel.run = [value, count = out.count(), size = size_of(out.dtype),
                copy = inner_copy(request)](const KernelCall& call) {
    fill(call.results[0], count, value, size);
    copy.run(call.operands[0], call.results[0]);
  };
  return kernel;
}

Result<Kernel> repeat_kernel(const KernelRequest& request) {
  const TensorType& in = request.node.type(0);
  const Shape& shape = request.results[0]->shape;
  const IntList& pad = request.node.attributes.integers("pad_amount");
  const std::string& scheme = request.node.attributes.text("scheme");
  const IntList strides = kernels::strides_of(shape);
  const std::size_t size = size_of(in.dtype);
  std::vector<Border> borders;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    std::vector<Repeat> repeats;
    const std::int64_t before = pad[2 * axis];
    for (std::int64_t i = 0; i < shape[axis]; ++i) {
      const std::int64_t source = source_of(scheme, i - before, in.shape[axis]) + before;
      if (source != i) repeats.push_back({i * strides[axis], source * strides[axis]});
    }
    if (repeats.empty()) continue;
    std::vector<kernels::StridedCopy::Axis> axes;
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      if (i == axis) continue;
      axes.push_back({i < axis ? in.shape[i] : shape[i], strides[i], strides[i]});
      if (i < axis) offset += pad[2 * i] * strides[i];
    }
    borders.push_back({std::move(repeats), kernels::StridedCopy(axes, size, offset, offset)});
  }
  Kernel kernel;
  kernel.run = [borders, size, copy = inner_copy(request)](const KernelCall& call) {
    copy.run(call.operands[0], call.results[0]);
    auto* out = static_cast<std::byte*>(call.results[0]);
    const auto bytes = static_cast<std::int64_t>(size);
    for (const Border& border : borders) {
      for (const Repeat& repeat : border.repeats) border.plane.run(out + repeat.from * bytes, out + repeat.to * bytes);
    }
  };
  return kernel;
}

Result<Kernel> copy_kernel(const KernelRequest& request) {
  if (request.node.attributes.text("scheme") == "constant") return constant_kernel(request);
  return repeat_kernel(request);
}

/// The scheme constant converts what it moves to the encoding of the result; the others copy bytes.
Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const TensorType& in = request.node.type(0);
  const TensorType& out = *request.results[0];
  const bool constant = request.node.attributes.text("scheme") == "constant";
  if (!constant || (in.dtype == out.dtype && in.encoding == out.encoding)) {
    return on_stored(copy_kernel)(request);
  }
  if (in.dtype != out.dtype) return fail(Code::kNoFixedRule, "Pad does not change the width of values");
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(in));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(out));
  HTPIPE_TRY(Kernel kernel, constant_kernel(request));
  kernel.scratch_bytes = in.size_bytes();
  kernel.run = [run = std::move(kernel.run), count = in.count(),
                map = kernels::UnaryMap(kernels::convert(from, to), in.dtype, out.dtype)](const KernelCall& call) {
    map.run(call.operands[0], call.scratch, 0, count);
    const void* const converted[] = {call.scratch};
    run({converted, call.results, nullptr});
  };
  return kernel;
}

/// QNN takes the value in the data's type, our table only as a float.
Status check_lowering(const NodeView& node) {
  if (is_float(node.type(0).dtype) || node.attributes.real("pad_constant_value") == 0.0F) return {};
  return fail(Code::kUnsupportedForm, "padding of integers with another constant than 0");
}

}  // namespace

const OpDef& pad() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Pad";
    def.doc = "Elements put before and after along each axis.";
    def.operands = {{"input"}};
    def.attributes = {
        {"scheme", std::string("constant"), false, "constant, mirror_symmetric, mirror_reflect, edge or wrap"},
        {"pad_amount", IntList{}, true, "elements [before, after] for each axis, in one list"},
        {"pad_constant_value", 0.0F, false, "what the scheme constant puts there"}};
    def.infer = infer;
    def.float_kernel = copy_kernel;
    def.fixed_kernel = fixed_kernel;
    def.any_dtype = true;
    def.result_encoding = ResultEncoding::kSameAsInput;
    def.exactness = Exactness::kCopy;
    def.lowering = {"Pad",
                    {{"scheme",
                      "scheme",
                      ParamKind::kEnum,
                      {{"constant", 0}, {"mirror_symmetric", 1}, {"mirror_reflect", 2}, {"edge", 3}}},
                     {"pad_amount", "pad_amount", ParamKind::kU32Pairs},
                     {"pad_constant_value", "pad_constant_value", ParamKind::kF32, {}, true}},
                    check_lowering};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
