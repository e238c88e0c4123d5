// Broadcasting as numpy has it: the shape rule, and the walk over a result whose operands repeat along some axes.
// Axes that every operand walks alike are joined, so that the innermost run is as long as it can be: operands of equal
// shapes are one run, and within a run each operand either advances by one element or stays.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include "base/result.h"
#include "ops/lanes.h"
#include "tensor/tensor.h"

namespace htpipe::ops {

/// Shape of the result of an elementwise function. Errors: shape-mismatch.
Result<Shape> broadcast(const Shape& a, const Shape& b);

/// How up to three operands are walked.
struct BroadcastPlan {
  static constexpr std::size_t kMaxOperands = 3;
  using Offsets = std::array<std::int64_t, kMaxOperands>;

  std::int64_t run = 0;                         ///< elements of the innermost run
  std::int64_t runs = 0;                        ///< number of runs
  std::array<bool, kMaxOperands> repeats = {};  ///< the operand gives one element for a whole run
  std::vector<std::int64_t> sizes = {};         ///< of the axes around a run, outermost first
  std::vector<Offsets> strides = {};            ///< of the operands along those axes
};

/// Each operand must broadcast to `result`.
[[nodiscard]] BroadcastPlan plan_broadcast(std::initializer_list<const Shape*> operands, const Shape& result);

/// Calls body(first element of the result, first element of each operand) for the runs from `begin` to `end`, in order.
template <typename Body>
void for_each_run(const BroadcastPlan& plan, std::int64_t begin, std::int64_t end, Body body) {
  BroadcastPlan::Offsets from = {};
  std::vector<std::int64_t> position(plan.sizes.size(), 0);
  std::int64_t rest = begin;
  for (std::size_t axis = plan.sizes.size(); axis-- > 0; rest /= plan.sizes[axis]) {
    position[axis] = rest % plan.sizes[axis];
    for (std::size_t i = 0; i < from.size(); ++i) from[i] += position[axis] * plan.strides[axis][i];
  }
  for (std::int64_t run = begin; run < end; ++run) {
    body(run * plan.run, from);
    for (std::size_t axis = plan.sizes.size(); axis-- > 0;) {
      const BroadcastPlan::Offsets& stride = plan.strides[axis];
      for (std::size_t i = 0; i < from.size(); ++i) from[i] += stride[i];
      if (++position[axis] < plan.sizes[axis]) break;
      for (std::size_t i = 0; i < from.size(); ++i) from[i] -= stride[i] * plan.sizes[axis];
      position[axis] = 0;
    }
  }
}

/// The same for every run.
template <typename Body>
void for_each_run(const BroadcastPlan& plan, Body body) {
  for_each_run(plan, 0, plan.runs, body);
}

/// Calls body(first element of the result, first element of each operand, elements) for runs or parts of runs, shared
/// out among the threads of a call.
template <typename Body>
void share_runs(const KernelCall& call, const BroadcastPlan& plan, Body body) {
  constexpr std::int64_t kGrain = 1 << 14;  // elements that are worth a hand-over to another thread
  if (plan.run < kGrain) {
    for_parts(call, plan.runs, kGrain / std::max<std::int64_t>(plan.run, 1) + 1,
              [&](std::int64_t begin, std::int64_t end, std::byte*) {
                for_each_run(plan, begin, end,
                             [&](std::int64_t to, const BroadcastPlan::Offsets& from) { body(to, from, plan.run); });
              });
    return;
  }
  for_each_run(plan, [&](std::int64_t to, const BroadcastPlan::Offsets& from) {
    for_parts(call, plan.run, kGrain, [&](std::int64_t begin, std::int64_t end, std::byte*) {
      BroadcastPlan::Offsets first = from;
      for (std::size_t i = 0; i < first.size(); ++i) first[i] += plan.repeats[i] ? 0 : begin;
      body(to + begin, first, end - begin);
    });
  });
}

/// out = function(a, b) for every element. Each kind of run has its own loop, so that the compiler can vectorise it.
template <typename In, typename Out, typename Function>
void map_pairs(const BroadcastPlan& plan, const In* a, const In* b, Out* out, Function function) {
  for_each_run(plan, [&](std::int64_t to, const BroadcastPlan::Offsets& from) {
    const In* x = a + from[0];
    const In* y = b + from[1];
    Out* z = out + to;
    if (plan.repeats[1]) {
      const In same = *y;
      for (std::int64_t i = 0; i < plan.run; ++i) z[i] = function(x[i], same);
    } else if (plan.repeats[0]) {
      const In same = *x;
      for (std::int64_t i = 0; i < plan.run; ++i) z[i] = function(same, y[i]);
    } else {
      for (std::int64_t i = 0; i < plan.run; ++i) z[i] = function(x[i], y[i]);
    }
  });
}

}  // namespace htpipe::ops
