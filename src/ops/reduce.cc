#include "ops/reduce.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/fixed/elementwise.h"
#include "kernels/fixed/rounding.h"
#include "kernels/strided_copy.h"
#include "ops/lanes.h"
#include "ops/movement.h"

namespace htpipe::ops {
namespace {

Result<std::vector<bool>> reduced_axes(const NodeView& node) {
  const Shape& shape = node.type(0).shape;
  std::vector<bool> reduced(shape.size(), false);
  for (const std::int64_t axis : node.attributes.integers("axes")) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape.size()) || reduced[static_cast<std::size_t>(axis)]) {
      return fail(Code::kUnsupportedForm,
                  fmt::format("axes {} of {}", to_string(node.attributes.integers("axes")), to_string(shape)));
    }
    reduced[static_cast<std::size_t>(axis)] = true;
  }
  return reduced;
}

Result<std::vector<TensorType>> infer(const NodeView& node, Reduction reduction) {
  HTPIPE_TRY(const std::vector<bool> reduced, reduced_axes(node));
  const TensorType& in = node.type(0);
  const bool keep = node.attributes.flag("keep_dims");
  Shape shape;
  std::int64_t terms = 1;
  for (std::size_t axis = 0; axis < in.shape.size(); ++axis) {
    if (reduced[axis]) terms *= in.shape[axis];
    if (!reduced[axis]) shape.push_back(in.shape[axis]);
    if (reduced[axis] && keep) shape.push_back(1);
  }
  const bool picks = reduction == Reduction::kMax || reduction == Reduction::kMin;
  if (in.dtype == DType::kBool && !picks && reduction != Reduction::kProd) {
    return fail(Code::kUnsupportedForm, "bool has only maximum, minimum and product");
  }
  if (terms == 0 && is_integer(in.dtype) && (picks || reduction == Reduction::kMean)) {
    return fail(Code::kUnsupportedForm, fmt::format("no elements to reduce in {}", to_string(in.shape)));
  }
  return std::vector<TensorType>{reshaped(node, 0, std::move(shape))};
}

/// One loop: elements and the step between them.
struct Loop {
  std::int64_t size;
  std::int64_t step;
};

/// Loops over the results and, for each, over its terms; neighbouring axes of the same kind are one loop.
struct Plan {
  std::vector<Loop> kept;
  std::vector<Loop> reduced;
  std::int64_t terms = 1;
  std::int64_t results = 1;
  std::int64_t columns = 1;  ///< results that are neighbours in the operand too: they are computed side by side
};

Plan plan_of(const Shape& shape, const std::vector<bool>& reduced) {
  const std::vector<std::int64_t> strides = kernels::strides_of(shape);
  Plan plan;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    (reduced[axis] ? plan.terms : plan.results) *= shape[axis];
    if (shape[axis] == 1) continue;
    std::vector<Loop>& loops = reduced[axis] ? plan.reduced : plan.kept;
    if (!loops.empty() && loops.back().step == strides[axis] * shape[axis]) {
      loops.back() = {loops.back().size * shape[axis], strides[axis]};
    } else {
      loops.push_back({shape[axis], strides[axis]});
    }
  }
  if (!plan.kept.empty() && plan.kept.back().step == 1) {
    plan.columns = plan.kept.back().size;
    plan.kept.pop_back();
  }
  return plan;
}

/// Positions of the loops.
std::int64_t positions(const std::vector<Loop>& loops) {
  std::int64_t count = 1;
  for (const Loop& loop : loops) count *= loop.size;
  return count;
}

/// Calls body(offset) for the positions of the loops from `begin` to `end`, the last loop fastest.
template <typename Body>
void for_each_offset(const std::vector<Loop>& loops, std::int64_t begin, std::int64_t end, Body body) {
  std::vector<std::int64_t> index(loops.size(), 0);
  std::int64_t offset = 0;
  std::int64_t rest = begin;
  for (std::size_t at = loops.size(); begin < end && at-- > 0; rest /= loops[at].size) {
    index[at] = rest % loops[at].size;
    offset += index[at] * loops[at].step;
  }
  for (std::int64_t position = begin; position < end; ++position) {
    body(offset);
    for (std::size_t at = loops.size(); at-- > 0;) {
      const Loop& loop = loops[at];
      offset += loop.step;
      if (++index[at] < loop.size) break;
      offset -= loop.step * loop.size;
      index[at] = 0;
    }
  }
}

/// Elements that are worth a hand-over to another thread.
constexpr std::int64_t kGrain = 1 << 14;

/// A reduction of elements T with an accumulator A: start, step(accumulator, element), finish(accumulator, terms).
/// Results are shared out among the threads of a call; the terms of one are taken in order.
template <typename T, typename A, typename Step, typename Finish>
Kernel make_kernel(const Plan& plan, A start, Step step, Finish finish) {
  Kernel kernel;
  kernel.lane_scratch_bytes = static_cast<std::size_t>(plan.columns) * sizeof(A);
  kernel.run = [plan, start, step, finish](const KernelCall& call) {
    const T* in = call.in<T>(0);
    T* out = call.out<T>(0);
    if (plan.results == 0) return;
    const std::int64_t kept = positions(plan.kept);
    const std::int64_t work = plan.terms + 1;
    if (plan.columns == 1) {
      std::vector<Loop> outer = plan.reduced;
      const Loop inner = outer.empty() ? Loop{1, 1} : outer.back();
      if (!outer.empty()) outer.pop_back();
      const std::int64_t lines = positions(outer);
      for_parts(call, kept, kGrain / work + 1, [&](std::int64_t begin, std::int64_t end, std::byte*) {
        T* target = out + begin;
        for_each_offset(plan.kept, begin, end, [&](std::int64_t base) {
          A sum = start;
          for_each_offset(outer, 0, lines, [&](std::int64_t offset) {
            const T* line = in + base + offset;
            for (std::int64_t i = 0; i < inner.size; ++i) sum = step(sum, line[i * inner.step]);
          });
          *target++ = finish(sum, plan.terms);
        });
      });
      return;
    }
    const std::int64_t lines = positions(plan.reduced);
    /// Columns [first, last) of the results at one position.
    const auto columns = [&](std::int64_t base, std::int64_t first, std::int64_t last, T* target, std::byte* scratch) {
      A* sums = reinterpret_cast<A*>(scratch);
      std::fill_n(sums, last - first, start);
      for_each_offset(plan.reduced, 0, lines, [&](std::int64_t offset) {
        const T* line = in + base + offset + first;
        for (std::int64_t i = 0; i < last - first; ++i) sums[i] = step(sums[i], line[i]);
      });
      for (std::int64_t i = 0; i < last - first; ++i) target[i] = finish(sums[i], plan.terms);
    };
    if (kept == 1) {
      for_parts(call, plan.columns, (kGrain / work / 16 + 1) * 16,
                [&](std::int64_t begin, std::int64_t end, std::byte* scratch) {
                  columns(0, begin, end, out + begin, scratch);
                });
      return;
    }
    for_parts(call, kept, kGrain / (work * plan.columns) + 1,
              [&](std::int64_t begin, std::int64_t end, std::byte* scratch) {
                T* target = out + begin * plan.columns;
                for_each_offset(plan.kept, begin, end, [&](std::int64_t base) {
                  columns(base, 0, plan.columns, target, scratch);
                  target += plan.columns;
                });
              });
  };
  return kernel;
}

Kernel float_kernel_of(const Plan& plan, Reduction reduction) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto narrow = [](double sum, std::int64_t) { return static_cast<float>(sum); };
  const auto same = [](float best, std::int64_t) { return best; };
  switch (reduction) {
    case Reduction::kMean:
      return make_kernel<float>(
          plan, 0.0, [](double sum, float x) { return sum + static_cast<double>(x); },
          [](double sum, std::int64_t terms) { return static_cast<float>(sum / static_cast<double>(terms)); });
    case Reduction::kSum:
      return make_kernel<float>(plan, 0.0, [](double sum, float x) { return sum + static_cast<double>(x); }, narrow);
    case Reduction::kProd:
      return make_kernel<float>(plan, 1.0, [](double sum, float x) { return sum * static_cast<double>(x); }, narrow);
    case Reduction::kSumSquare:
      return make_kernel<float>(
          plan, 0.0, [](double sum, float x) { return sum + static_cast<double>(x) * static_cast<double>(x); }, narrow);
    case Reduction::kMax:
      return make_kernel<float>(
          plan, -kInfinity, [](float best, float x) { return x > best || std::isnan(x) ? x : best; }, same);
    case Reduction::kMin:
      break;
  }
  return make_kernel<float>(
      plan, kInfinity, [](float best, float x) { return x < best || std::isnan(x) ? x : best; }, same);
}

/// Sums and products are taken of unsigned numbers, which wrap around as two's complement does.
Kernel integer_kernel_of(const Plan& plan, Reduction reduction) {
  using Signed = std::int64_t;
  using Unsigned = std::uint64_t;
  const auto wrap = [](Unsigned sum, std::int64_t) { return static_cast<Signed>(sum); };
  const auto same = [](Signed best, std::int64_t) { return best; };
  switch (reduction) {
    case Reduction::kMean:
      return make_kernel<Signed>(
          plan, Unsigned{0}, [](Unsigned sum, Signed x) { return sum + static_cast<Unsigned>(x); },
          [](Unsigned sum, std::int64_t terms) { return static_cast<Signed>(sum) / terms; });
    case Reduction::kSum:
      return make_kernel<Signed>(
          plan, Unsigned{0}, [](Unsigned sum, Signed x) { return sum + static_cast<Unsigned>(x); }, wrap);
    case Reduction::kProd:
      return make_kernel<Signed>(
          plan, Unsigned{1}, [](Unsigned sum, Signed x) { return sum * static_cast<Unsigned>(x); }, wrap);
    case Reduction::kSumSquare:
      return make_kernel<Signed>(
          plan, Unsigned{0},
          [](Unsigned sum, Signed x) { return sum + static_cast<Unsigned>(x) * static_cast<Unsigned>(x); }, wrap);
    case Reduction::kMax:
      return make_kernel<Signed>(
          plan, std::numeric_limits<Signed>::min(), [](Signed best, Signed x) { return std::max(best, x); }, same);
    case Reduction::kMin:
      break;
  }
  return make_kernel<Signed>(
      plan, std::numeric_limits<Signed>::max(), [](Signed best, Signed x) { return std::min(best, x); }, same);
}

Kernel bool_kernel_of(const Plan& plan, Reduction reduction) {
  using Bool = std::uint8_t;
  const auto same = [](Bool best, std::int64_t) { return best; };
  if (reduction == Reduction::kMax) {
    return make_kernel<Bool>(
        plan, Bool{0}, [](Bool any, Bool x) { return static_cast<Bool>(any | static_cast<Bool>(x != 0)); }, same);
  }
  return make_kernel<Bool>(
      plan, Bool{1}, [](Bool all, Bool x) { return static_cast<Bool>(all & static_cast<Bool>(x != 0)); }, same);
}

Result<Kernel> plain_kernel(const KernelRequest& request, Reduction reduction) {
  HTPIPE_TRY(const std::vector<bool> reduced, reduced_axes(request.node));
  const Plan plan = plan_of(request.node.type(0).shape, reduced);
  switch (request.node.type(0).dtype) {
    case DType::kF32:
      return float_kernel_of(plan, reduction);
    case DType::kI64:
      return integer_kernel_of(plan, reduction);
    case DType::kBool:
      return bool_kernel_of(plan, reduction);
    default:
      return fail(Code::kUnsupportedForm, fmt::format("no reduction of {}", name_of(request.node.type(0).dtype)));
  }
}

/// True where the chip reduces as its pools do: all of the height and width of [n,h,w,c], and nothing else.
bool is_spatial(const Shape& shape, const std::vector<bool>& reduced) {
  if (shape.size() < 2 || shape.size() > 4) return false;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const std::size_t from_end = shape.size() - 1 - axis;
    const bool pixels = from_end == 1 || from_end == 2;
    if (shape[axis] != 1 && reduced[axis] != pixels) return false;
  }
  return true;
}

/// Of a sum of stored values minus the zero point to a stored result.
struct Rescale {
  kernels::Mantissa factor{1, 0};
  double offset = 0.5;
  kernels::Grid to;

  [[nodiscard]] std::int64_t operator()(std::int64_t sum) const {
    const double value = std::ldexp(static_cast<double>(sum) * static_cast<double>(factor.value), -factor.shift);
    const double q = std::floor(value + offset) + static_cast<double>(to.zero);
    return static_cast<std::int64_t>(std::clamp(q, 0.0, static_cast<double>(to.high)));
  }
};

/// T: the stored type; `zero` is its own zero point.
template <typename T>
Kernel sum_kernel_of(const Plan& plan, std::int64_t zero, const Rescale& rescale) {
  return make_kernel<T>(
      plan, std::int64_t{0}, [](std::int64_t sum, T x) { return sum + static_cast<std::int64_t>(x); },
      [rescale, zero](std::int64_t sum, std::int64_t terms) {
        return static_cast<T>(rescale(sum - zero * terms) - rescale.to.offset);
      });
}

template <typename T>
Kernel pick_kernel_of(const Plan& plan, bool largest, const kernels::Unary& rescale, std::int64_t offset) {
  const auto finish = [rescale, offset](T best, std::int64_t) {
    return static_cast<T>(rescale(static_cast<std::int64_t>(best) + offset) - offset);
  };
  if (largest) {
    return make_kernel<T>(
        plan, std::numeric_limits<T>::lowest(), [](T best, T x) { return std::max(best, x); }, finish);
  }
  return make_kernel<T>(plan, std::numeric_limits<T>::max(), [](T best, T x) { return std::min(best, x); }, finish);
}

template <typename T>
Kernel fixed_kernel_of(const Plan& plan, Reduction reduction, bool spatial, const kernels::Grid& from,
                       const kernels::Grid& to) {
  if (reduction == Reduction::kMax || reduction == Reduction::kMin) {
    // With another scale the chip picks first and rescales then: 8 bits by a table.
    const auto identity = [](double x) { return x; };
    const kernels::Unary rescale =
        from == to || from.wide() ? kernels::convert(from, to) : kernels::table(identity, from, to);
    return pick_kernel_of<T>(plan, reduction == Reduction::kMax, rescale, from.offset);
  }
  Rescale rescale;
  rescale.to = to;
  double factor = from.scale / to.scale;
  if (reduction == Reduction::kMean) factor /= static_cast<double>(std::max<std::int64_t>(plan.terms, 1));
  rescale.factor = kernels::mantissa(factor, 15);
  if (reduction == Reduction::kSum || !spatial) {
    // The factor is nearly cut: it is rounded up from somewhere between 0.69 and 0.78 on. 16 bits round up twice.
    rescale.factor.value = static_cast<std::int64_t>(std::floor(std::ldexp(factor, rescale.factor.shift) + 0.27));
    if (from.wide()) rescale.offset = 1;
  }
  return sum_kernel_of<T>(plan, from.zero - from.offset, rescale);
}

Result<Kernel> fixed_kernel(const KernelRequest& request, Reduction reduction) {
  HTPIPE_TRY(const std::vector<bool> reduced, reduced_axes(request.node));
  const TensorType& in = request.node.type(0);
  HTPIPE_TRY(const kernels::Grid from, kernels::Grid::of(in));
  HTPIPE_TRY(const kernels::Grid to, kernels::Grid::of(*request.results[0]));
  if (in.dtype != request.results[0]->dtype) return fail(Code::kNoFixedRule, "operand and result differ in type");
  if (in.count() == 0) return fail(Code::kNoFixedRule, "no elements to reduce");
  const Plan plan = plan_of(in.shape, reduced);
  const bool spatial = is_spatial(in.shape, reduced);
  switch (in.dtype) {
    case DType::kU8:
      return fixed_kernel_of<std::uint8_t>(plan, reduction, spatial, from, to);
    case DType::kI8:
      return fixed_kernel_of<std::int8_t>(plan, reduction, spatial, from, to);
    case DType::kU16:
      return fixed_kernel_of<std::uint16_t>(plan, reduction, spatial, from, to);
    default:
      return fixed_kernel_of<std::int16_t>(plan, reduction, spatial, from, to);
  }
}

}  // namespace

OpDef reduce_op(std::string_view name, std::string_view doc, Reduction reduction) {
  OpDef def;
  def.name = name;
  def.doc = doc;
  def.operands = {{"input"}};
  def.attributes = {{"axes", std::vector<std::int64_t>{}, true, "axes that are reduced"},
                    {"keep_dims", false, false, "reduced axes stay, with size 1"}};
  def.infer = [reduction](const NodeView& node) { return infer(node, reduction); };
  def.float_kernel = [reduction](const KernelRequest& request) { return plain_kernel(request, reduction); };
  const bool picks = reduction == Reduction::kMax || reduction == Reduction::kMin;
  if (picks) def.result_encoding = ResultEncoding::kSameAsInput;
  if (picks || reduction == Reduction::kMean || reduction == Reduction::kSum) {
    def.fixed_kernel = [reduction](const KernelRequest& request) { return fixed_kernel(request, reduction); };
  }
  def.lowering = {name,
                  {{"axes", "axes", ParamKind::kU32List}, {"keep_dims", "keep_dims", ParamKind::kBool, {}, true}}};
  return def;
}

}  // namespace htpipe::ops
