#include "ops/ranking.h"

#include <fmt/core.h>

#include <vector>

#include "ops/movement.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  Shape shape = node.type(0).shape;
  HTPIPE_TRY(const std::size_t axis, axis_of(node, "axis", shape.size()));
  if (shape[axis] == 0) return fail(Code::kUnsupportedForm, fmt::format("axis {} of {}", axis, to_string(shape)));
  if (node.attributes.flag("keep_dims")) {
    shape[axis] = 1;
  } else {
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  }
  return std::vector<TensorType>{{DType::kI32, std::move(shape), std::nullopt}};
}

template <typename T, typename I = std::int64_t>
Kernel make_kernel(const AxisSplit& split, bool largest, bool last) {
  Kernel kernel;
  kernel.run = [=](const KernelCall& call) {
    auto* out = call.out<I>(0);
    for (std::int64_t outer = 0; outer < split.outer; ++outer) {
      for (std::int64_t inner = 0; inner < split.inner; ++inner) {
        const T* line = call.in<T>(0) + outer * split.size * split.inner + inner;
        std::int64_t best = 0;
        for (std::int64_t i = 1; i < split.size; ++i) {
          const T there = line[best * split.inner];
          const T here = line[i * split.inner];
          if (last ? !comes_before(there, here, largest, true) : comes_before(here, there, largest, true)) best = i;
        }
        *out++ = static_cast<I>(best);
      }
    }
  };
  return kernel;
}

Result<Kernel> plain_kernel(const KernelRequest& request, bool largest) {
  const TensorType& in = request.node.type(0);
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node, "axis", in.shape.size()));
  const AxisSplit split = split_at(in.shape, axis);
  const bool last = request.node.attributes.flag("select_last");
  if (in.dtype == DType::kF32) return make_kernel<float>(split, largest, last);
  if (in.dtype == DType::kI64) return make_kernel<std::int64_t>(split, largest, last);
  if (in.dtype == DType::kBool) return make_kernel<std::uint8_t>(split, largest, last);
  return fail(Code::kUnsupportedForm, fmt::format("no order of {}", name_of(in.dtype)));
}

/// Stored values are compared as they are; the chip finds the first of equal ones.
Result<Kernel> fixed_kernel(const KernelRequest& request, bool largest) {
  const TensorType& in = request.node.type(0);
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node, "axis", in.shape.size()));
  if (!in.encoding || !in.encoding->per_tensor()) return fail(Code::kNoFixedRule, "no per-tensor encoding");
  const AxisSplit split = split_at(in.shape, axis);
  const bool last = request.node.attributes.flag("select_last");
  switch (in.dtype) {
    case DType::kU8:
      return make_kernel<std::uint8_t, std::int32_t>(split, largest, last);
    case DType::kI8:
      return make_kernel<std::int8_t, std::int32_t>(split, largest, last);
    case DType::kU16:
      return make_kernel<std::uint16_t, std::int32_t>(split, largest, last);
    case DType::kI16:
      return make_kernel<std::int16_t, std::int32_t>(split, largest, last);
    default:
      return fail(Code::kNoFixedRule, fmt::format("no order of stored {}", name_of(in.dtype)));
  }
}

Status check_lowering(const NodeView& node) {
  if (!node.attributes.flag("select_last")) return {};
  return fail(Code::kUnsupportedForm, "QNN has no select_last");
}

}  // namespace

OpDef arg_op(std::string_view name, std::string_view doc, bool largest) {
  OpDef def;
  def.name = name;
  def.doc = doc;
  def.operands = {{"input"}};
  def.attributes = {{"axis", std::int64_t{0}, true, "axis along which to look"},
                    {"keep_dims", false, false, "the axis stays, with size 1"},
                    {"select_last", false, false, "the last of several equal ones, else the first"}};
  def.infer = infer;
  def.float_kernel = [largest](const KernelRequest& request) { return plain_kernel(request, largest); };
  def.fixed_kernel = [largest](const KernelRequest& request) { return fixed_kernel(request, largest); };
  def.lowering = {name,
                  {{"axis", "axis", ParamKind::kU32}, {"keep_dims", "keep_dims", ParamKind::kBool, {}, true}},
                  check_lowering};
  return def;
}

}  // namespace htpipe::ops
