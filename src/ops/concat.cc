// Concat: operands joined along one axis; the chip converts each operand to the result's encoding.
// Source: QNN operator Concat.
#include <fmt/core.h>

#include <cstring>
#include <vector>

#include "kernels/fixed/elementwise.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const std::int64_t axis = node.attributes.integer("axis");
  Shape shape = node.type(0).shape;
  if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size())) {
    return fail(Code::kUnsupportedForm, fmt::format("axis {} of {}", axis, to_string(shape)));
  }
  const auto at = static_cast<std::size_t>(axis);
  for (std::size_t i = 1; i < node.operands.size(); ++i) {
    Shape other = node.type(i).shape;
    if (node.type(i).dtype != node.type(0).dtype) return fail(Code::kDtypeMismatch, "operands have several data types");
    if (other.size() != shape.size()) return fail(Code::kShapeMismatch, "operands have several ranks");
    shape[at] += other[at];
    other[at] = shape[at];
    if (other != shape) {
      return fail(Code::kShapeMismatch,
                  fmt::format("{} does not fit {}", to_string(node.type(i).shape), to_string(shape)));
    }
  }
  return std::vector<TensorType>{{node.type(0).dtype, std::move(shape), std::nullopt}};
}

struct Join {
  std::int64_t outer = 1;
  std::vector<std::int64_t> rows;  ///< contiguous elements of each operand per outer index
};

Join join_of(const NodeView& node) {
  const auto axis = static_cast<std::size_t>(node.attributes.integer("axis"));
  Join join;
  for (std::size_t i = 0; i < axis; ++i) join.outer *= node.type(0).shape[i];
  for (std::size_t i = 0; i < node.operands.size(); ++i)
    join.rows.push_back(join.outer > 0 ? node.type(i).count() / join.outer : 0);
  return join;
}

/// Calls copy(operand, from, to, count) for every contiguous run.
template <typename Copy>
void for_each_run(const Join& join, Copy copy) {
  std::int64_t to = 0;
  for (std::int64_t outer = 0; outer < join.outer; ++outer) {
    for (std::size_t operand = 0; operand < join.rows.size(); ++operand) {
      copy(operand, outer * join.rows[operand], to, join.rows[operand]);
      to += join.rows[operand];
    }
  }
}

Result<Kernel> copy_kernel(const KernelRequest& request) {
  Kernel kernel;
  kernel.run = [join = join_of(request.node), size = size_of(request.node.type(0).dtype)](const KernelCall& call) {
    for_each_run(join, [&](std::size_t operand, std::int64_t from, std::int64_t to, std::int64_t count) {
      if (count == 0) return;
      const auto bytes = [size](std::int64_t elements) { return static_cast<std::size_t>(elements) * size; };
      std::memcpy(call.out<std::byte>(0) + bytes(to), call.in<std::byte>(operand) + bytes(from), bytes(count));
    });
  };
  return kernel;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  const DType dtype = request.results[0]->dtype;
  std::vector<kernels::UnaryMap> maps;
  for (std::size_t i = 0; i < request.node.operands.size(); ++i) {
    HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(request.node.type(i)));
    maps.emplace_back(kernels::convert(from, to), request.node.type(i).dtype, dtype);
  }
  Kernel kernel;
  kernel.run = [join = join_of(request.node), maps,
                size = static_cast<std::int64_t>(size_of(dtype))](const KernelCall& call) {
    for_each_run(join, [&](std::size_t operand, std::int64_t from, std::int64_t target, std::int64_t count) {
      maps[operand].run(call.in<std::byte>(operand) + from * size, call.out<std::byte>(0) + target * size, 0, count);
    });
  };
  return kernel;
}

}  // namespace

const OpDef& concat() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Concat";
    def.doc = "Operands joined along one axis.";
    def.operands = {{"inputs", Role::kData, false, true}};
    def.attributes = {{"axis", std::int64_t{0}, true, "axis along which to join"}};
    def.infer = infer;
    def.float_kernel = copy_kernel;
    def.any_dtype = true;
    def.fixed_kernel = fixed_kernel;
    def.layout = Layout::kAxis;
    def.lowering = {"Concat", {{"axis", "axis", ParamKind::kU32}}};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
