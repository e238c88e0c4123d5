// OneHot: along a new axis, one value where the index is and another elsewhere. Negative indices count from the end; one
// that is out of range has no place: everything is off. Source: QNN operator OneHot; the attribute `to` is ours.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ops/element.h"
#include "ops/indices.h"
#include "ops/movement.h"
#include "ops/registry.h"

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

Result<Kernel> plain_kernel(const KernelRequest& request) {
  if (request.node.type(0).dtype != DType::kI64) {
    return fail(Code::kUnsupportedForm, fmt::format("indices of {}", name_of(request.node.type(0).dtype)));
  }
  const TensorType& out = *request.results[0];
  HTPIPE_TRY(const std::size_t axis, axis_of(request.node, "axis", out.shape.size()));
  HTPIPE_TRY(const Element on, element_of(static_cast<double>(request.node.attributes.real("on_value")), out));
  HTPIPE_TRY(const Element off, element_of(static_cast<double>(request.node.attributes.real("off_value")), out));
  const AxisSplit split = split_at(out.shape, axis);
  Kernel kernel;
  kernel.run = [=, count = out.count(), size = size_of(out.dtype)](const KernelCall& call) {
    fill(call.results[0], count, off, size);
    const auto* index = call.in<std::int64_t>(0);
    auto* target = call.out<std::byte>(0);
    for (std::int64_t outer = 0; outer < split.outer; ++outer) {
      for (std::int64_t inner = 0; inner < split.inner; ++inner) {
        const std::int64_t at = position_of(*index++, split.size);
        if (at < 0) continue;
        const std::int64_t place = (outer * split.size + at) * split.inner + inner;
        std::copy_n(on.data(), size, target + static_cast<std::size_t>(place) * size);
      }
    }
  };
  return kernel;
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
    def.lowering = {"OneHot",
                    {{"depth", "depth", ParamKind::kU32},
                     {"axis", "axis", ParamKind::kU32},
                     {"on_value", "on_value", ParamKind::kF32, {}, true},
                     {"off_value", "off_value", ParamKind::kF32, {}, true}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
