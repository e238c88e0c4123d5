#include "ops/broadcast.h"

#include <fmt/core.h>

#include <algorithm>

namespace htpipe::ops {
namespace {

/// Elements by which each operand advances along every axis of the result; 0 where it repeats.
std::vector<std::vector<std::int64_t>> strides_of(std::initializer_list<const Shape*> operands, std::size_t rank) {
  std::vector<std::vector<std::int64_t>> strides;
  for (const Shape* shape : operands) {
    std::vector<std::int64_t>& own = strides.emplace_back(rank, 0);
    std::int64_t stride = 1;
    for (std::size_t i = 0; i < shape->size(); ++i) {
      const std::int64_t size = (*shape)[shape->size() - 1 - i];
      own[rank - 1 - i] = size == 1 ? 0 : stride;
      stride *= size;
    }
  }
  return strides;
}

}  // namespace

Result<Shape> broadcast(const Shape& a, const Shape& b) {
  Shape result(std::max(a.size(), b.size()), 1);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    const std::int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) {
      return fail(Code::kShapeMismatch, fmt::format("{} and {} do not broadcast", to_string(a), to_string(b)));
    }
    result[result.size() - 1 - i] = x == 1 ? y : x;
  }
  return result;
}

BroadcastPlan plan_broadcast(std::initializer_list<const Shape*> operands, const Shape& result) {
  BroadcastPlan plan;
  const std::int64_t count = element_count(result);
  if (count == 0) return plan;
  const auto strides = strides_of(operands, result.size());
  // From the innermost axis outwards; the axis last found is the one to join.
  for (std::size_t axis = result.size(); axis-- > 0;) {
    if (result[axis] == 1) continue;
    BroadcastPlan::Offsets own = {};
    for (std::size_t i = 0; i < strides.size(); ++i) own[i] = strides[i][axis];
    bool joins = !plan.sizes.empty();
    for (std::size_t i = 0; joins && i < own.size(); ++i) {
      joins = own[i] == plan.strides.back()[i] * plan.sizes.back();
    }
    if (joins) {
      plan.sizes.back() *= result[axis];
    } else {
      plan.sizes.push_back(result[axis]);
      plan.strides.push_back(own);
    }
  }
  plan.run = 1;
  if (!plan.sizes.empty()) {
    plan.run = plan.sizes.front();
    for (std::size_t i = 0; i < operands.size(); ++i) plan.repeats[i] = plan.strides.front()[i] == 0;
    plan.sizes.erase(plan.sizes.begin());
    plan.strides.erase(plan.strides.begin());
    std::reverse(plan.sizes.begin(), plan.sizes.end());
    std::reverse(plan.strides.begin(), plan.strides.end());
  }
  plan.runs = count / plan.run;
  return plan;
}

}  // namespace htpipe::ops
