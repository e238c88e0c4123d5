// OneHot: along a new axis, one value where the index is and another elsewhere. Negative indices count from the end; one
// that is out of range has no place: everything is off. On the chip negative ones have none either.
// Source: QNN operator OneHot; the attribute `to` is ours.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/fixed/elementwise.h"
#include "ops/element.h"
#include "ops/indices.h"
#include "ops/movement.h"
#include "ops/registry.h"
#include "ops/stored.h"

namespace htpipe::ops {
namespace {

constexpr std::int64_t kMaxDepth = std::int64_t{1} << 40;

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const std::int64_t depth = node.attributes.integer("depth");
  Shape shape = node.type(0).shape;
  HTPIPE_TRY(const std::size_t axis, axis_of(node, "axis", shape.size() + 1));
  const auto to = parse_dtype(node.attributes.text("to"));
  if (!to) return fail(Code::kDtypeMismatch, fmt::format("no data type \"{}\"", node.attributes.text("to")));
  if (!is_integer(node.type(0).dtype) || node.type(0).encoding) {
    return fail(Code::kDtypeMismatch, fmt::format("indices are {}", to_string(node.type(0))));
  }
  if (depth < 0 || depth > kMaxDepth) return fail(Code::kUnsupportedForm, fmt::format("depth {}", depth));
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(axis), depth);
  return std::vector<TensorType>{{*to, std::move(shape), std::nullopt}};
}

/// T: the data type of the indices.
template <typename T>
Kernel make_kernel(const TensorType& out, std::size_t axis, const Element& on, const Element& off, bool from_end) {
  const AxisSplit split = split_at(out.shape, axis);
  Kernel kernel;
  kernel.run = [=, count = out.count(), size = size_of(out.dtype)](const KernelCall& call) {
    fill(call.results[0], count, off, size);
    const T* index = call.in<T>(0);
    auto* target = call.out<std::byte>(0);
    for (std::int64_t outer = 0; outer < split.outer; ++outer) {
      for (std::int64_t inner = 0; inner < split.inner; ++inner) {
        const auto asked = static_cast<std::int64_t>(*index++);
        const std::int64_t at = position_of(asked, split.size);
        if (at < 0 || (asked < 0 && !from_end)) continue;
        const std::int64_t place = (outer * split.size + at) * split.inner + inner;
        std::copy_n(on.data(), size, target + static_cast<std::size_t>(place) * size);
      }
    }
  };
  return kernel;
}

Result<Kernel> plain_kernel(const KernelRequest& request) {
  if (request.node.type(0).dtype != DType::kI64) {
    return fail(Code::kUnsupportedForm, fmt::format("indices of {}", name_of(request.node.type(0).dtype)));
  }
  const TensorType& out = *request.results[0];
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node, "axis", out.shape.size()));
  HTPIPE_TRY(const Element on, element_of(static_cast<double>(request.node.attributes.real("on_value")), out));
  HTPIPE_TRY(const Element off, element_of(static_cast<double>(request.node.attributes.real("off_value")), out));
  return make_kernel<std::int64_t>(out, axis, on, off, true);
}

/// The stored integer of an attribute, as a Quantize makes it.
Result<Element> stored(float value, const TensorType& type) {
  HTPIPE_TRY(const kernels::Grid grid, kernels::Grid::of(type));
  Element element{};
  save_stored(element.data(), type.dtype, 0, kernels::quantize(value, grid) - grid.offset);
  return element;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const TensorType& out = *request.results[0];
  if (out.dtype == DType::kI16) return fail(Code::kNoFixedRule, "the chip has no OneHot of i16");
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node, "axis", out.shape.size()));
  HTPIPE_TRY(const Element on, stored(request.node.attributes.real("on_value"), out));
  HTPIPE_TRY(const Element off, stored(request.node.attributes.real("off_value"), out));
  switch (request.node.type(0).dtype) {
    case DType::kI32:
      return make_kernel<std::int32_t>(out, axis, on, off, false);
    case DType::kU32:
      return make_kernel<std::uint32_t>(out, axis, on, off, false);
    default:
      return fail(Code::kNoFixedRule,
                  fmt::format("the chip takes no indices of {}", name_of(request.node.type(0).dtype)));
  }
}

}  // namespace

const OpDef& one_hot() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "OneHot";
    def.doc = "Along a new axis, one value where the index is and another elsewhere.";
    def.operands = {{"input"}};
    def.attributes = {{"depth", std::int64_t{0}, true, "size of the new axis"},
                      {"axis", std::int64_t{0}, true, "where the new axis stands in the result"},
                      {"on_value", 1.0F, false, "where the index is"},
                      {"off_value", 0.0F, false, "elsewhere"},
                      {"to", std::string("f32"), false, "data type of the result"}};
    def.infer = infer;
    def.float_kernel = plain_kernel;
    def.fixed_kernel = fixed_kernel;
    def.lowering = {"OneHot",
                    {{"depth", "depth", ParamKind::kU32},
                     {"axis", "axis", ParamKind::kU32},
                     {"on_value", "on_value", ParamKind::kF32},  // left out, the chip stores 1 and 0 as they are
                     {"off_value", "off_value", ParamKind::kF32}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
