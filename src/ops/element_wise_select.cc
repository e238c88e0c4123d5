// ElementWiseSelect: where the condition holds the first operand, else the second; all three broadcast.
// Source: QNN operator ElementWiseSelect.
#include <fmt/core.h>

#include <utility>

#include "kernels/fixed/elementwise.h"
#include "ops/broadcast.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

Result<std::vector<TensorType>> infer(const NodeView& node) {
  const TensorType& a = node.type(1);
  const TensorType& b = node.type(2);
  if (node.type(0).dtype != DType::kBool) {
    return fail(Code::kDtypeMismatch, fmt::format("the condition is {}, not bool", name_of(node.type(0).dtype)));
  }
  if (a.dtype != b.dtype) {
    return fail(Code::kDtypeMismatch, fmt::format("{} and {}", name_of(a.dtype), name_of(b.dtype)));
  }
  HTPIPE_TRY(const Shape both, broadcast(a.shape, b.shape));
  HTPIPE_TRY(Shape shape, broadcast(node.type(0).shape, both));
  return std::vector<TensorType>{{a.dtype, std::move(shape), std::nullopt}};
}

template <typename Element>
Kernel select(const BroadcastPlan& plan) {
  Kernel kernel;
  kernel.run = [plan](const KernelCall& call) {
    // An operand that repeats advances by 0; the others by 1.
    share_runs(call, plan, [&](std::int64_t to, const BroadcastPlan::Offsets& from, std::int64_t count) {
      const std::uint8_t* condition = call.in<std::uint8_t>(0) + from[0];
      const Element* x = call.in<Element>(1) + from[1];
      const Element* y = call.in<Element>(2) + from[2];
      Element* out = call.out<Element>(0) + to;
      if (plan.repeats[0]) {
        const Element* taken = *condition != 0 ? x : y;
        const bool same = plan.repeats[*condition != 0 ? 1 : 2];
        for (std::int64_t i = 0; i < count; ++i) out[i] = taken[same ? 0 : i];
        return;
      }
      // Each kind of run has its own loop, so that the compiler can vectorise it.
      const auto loop = [&](auto yes, auto no) {
        for (std::int64_t i = 0; i < count; ++i) {
          const Element first = yes(i);
          const Element second = no(i);
          out[i] = condition[i] != 0 ? first : second;
        }
      };
      const auto each_x = [x](std::int64_t i) { return x[i]; };
      const auto each_y = [y](std::int64_t i) { return y[i]; };
      const auto same_x = [value = *x](std::int64_t) { return value; };
      const auto same_y = [value = *y](std::int64_t) { return value; };
      if (plan.repeats[1]) {
        plan.repeats[2] ? loop(same_x, same_y) : loop(same_x, each_y);
      } else {
        plan.repeats[2] ? loop(each_x, same_y) : loop(each_x, each_y);
      }
    });
  };
  return kernel;
}

Result<Kernel> plain_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  const BroadcastPlan plan =
      plan_broadcast({&node.type(0).shape, &node.type(1).shape, &node.type(2).shape}, request.results[0]->shape);
  switch (size_of(node.type(1).dtype)) {
    case 1:
      return select<std::uint8_t>(plan);
    case 2:
      return select<std::uint16_t>(plan);
    case 4:
      return select<std::uint32_t>(plan);
    case 8:
      return select<std::uint64_t>(plan);
    default:
      return fail(Code::kUnsupportedForm, fmt::format("no elements of {}", name_of(node.type(1).dtype)));
  }
}

/// Both operands are converted to the encoding of the result.
template <typename Stored>
Kernel select_stored(const BroadcastPlan& plan, kernels::UnaryMap yes, kernels::UnaryMap no) {
  Kernel kernel;
  kernel.run = [plan, yes = std::move(yes), no = std::move(no)](const KernelCall& call) {
    for_each_run(plan, [&](std::int64_t to, const BroadcastPlan::Offsets& from) {
      const std::uint8_t* condition = call.in<std::uint8_t>(0) + from[0];
      const Stored* x = call.in<Stored>(1) + from[1];
      const Stored* y = call.in<Stored>(2) + from[2];
      Stored* out = call.out<Stored>(0) + to;
      for (std::int64_t i = 0; i < plan.run; ++i) {
        const bool chosen = condition[plan.repeats[0] ? 0 : i] != 0;
        if (chosen) {
          yes.run(x + (plan.repeats[1] ? 0 : i), out + i, 0, 1);
        } else {
          no.run(y + (plan.repeats[2] ? 0 : i), out + i, 0, 1);
        }
      }
    });
  };
  return kernel;
}

Result<Kernel> fixed_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  const TensorType& result = *request.results[0];
  HTPIPE_TRY(const kernels::Grid a, kernels::Grid::of(node.type(1)));
  HTPIPE_TRY(const kernels::Grid b, kernels::Grid::of(node.type(2)));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(result));
  if (a.wide() != b.wide() || a.wide() != to.wide()) {
    return fail(Code::kNoFixedRule, "a choice between values of 8 and 16 bits");
  }
  const BroadcastPlan plan =
      plan_broadcast({&node.type(0).shape, &node.type(1).shape, &node.type(2).shape}, result.shape);
  const auto map = [&](std::size_t operand, const kernels::Grid& from) {
    return kernels::UnaryMap(kernels::convert(from, to), node.type(operand).dtype, result.dtype);
  };
  if (to.wide()) return select_stored<std::uint16_t>(plan, map(1, a), map(2, b));
  return select_stored<std::uint8_t>(plan, map(1, a), map(2, b));
}

}  // namespace

const OpDef& element_wise_select() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "ElementWiseSelect";
    def.doc = "Where the condition holds the first operand, else the second.";
    def.operands = {{"condition"}, {"a"}, {"b"}};
    def.infer = infer;
    def.float_kernel = plain_kernel;
    def.fixed_kernel = fixed_kernel;
    def.any_dtype = true;
    def.layout = Layout::kElementwise;
    def.exactness = Exactness::kCopy;
    def.lowering = {"ElementWiseSelect"};
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
