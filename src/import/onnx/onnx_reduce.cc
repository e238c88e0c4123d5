// Reductions, arguments of extremes, running sums, sorting.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_integers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

constexpr std::int64_t kLongestProduct = 1024;  ///< elements of an axis that CumProd unrolls

/// What a Reduce operator reduces.
struct Axes {
  IntList axes;  ///< none: every element by itself
  bool keep = true;
};

/// `first_input`: the first opset in which the axes are an input.
Result<Axes> axes_of(Call& call, std::int64_t first_input) {
  HTPIPE_TRY(const Value* input, call.input(0));
  HTPIPE_TRY(const std::int64_t keep, call.integer("keepdims", 1));
  IntList given;
  bool noop = false;
  if (call.opset() >= first_input) {
    HTPIPE_TRY(const std::int64_t flag, call.integer("noop_with_empty_axes", 0));
    noop = flag != 0;
    if (call.has(1)) {
      HTPIPE_TRY(given, call.integers_input(1));
    }
  } else {
    HTPIPE_TRY(given, call.ints("axes"));
  }
  Axes axes;
  axes.keep = keep != 0;
  if (given.empty()) {
    if (!noop) axes.axes = count_up(0, rank_of(input));
    return axes;
  }
  for (const std::int64_t axis : given) {
    HTPIPE_TRY(const std::int64_t normal, normal_axis(axis, input->type.shape.size()));
    axes.axes.push_back(normal);
  }
  std::sort(axes.axes.begin(), axes.axes.end());
  if (std::adjacent_find(axes.axes.begin(), axes.axes.end()) != axes.axes.end()) {
    return fail(Code::kOnnxInvalid, "an axis is named twice");
  }
  return axes;
}

Result<Values> simple(Call& call, std::string_view op, std::int64_t first_input = 18) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const Axes axes, axes_of(call, first_input));
  return one(reduce(call, op, input, axes.axes, axes.keep));
}

Result<Values> extreme(Call& call, std::string_view op) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const Axes axes, axes_of(call, 18));
  const DType dtype = input->type.dtype;
  HTPIPE_TRY(Value * ordered, to_ordered(call, input, "ordered"));
  HTPIPE_TRY(Value * found, reduce(call, op, ordered, axes.axes, axes.keep, dtype == DType::kU64 ? "found" : ""));
  return one(from_ordered(call, found, dtype));
}

/// The root or logarithm of a reduction; of integers it is computed in float32 and cut.
Result<Values> real_of(Call& call, std::string_view function, Value* reduced, DType dtype) {
  if (is_float(dtype)) return one(call.unary(function, reduced));
  HTPIPE_TRY(Value * real, call.unary(function, reduced, "real"));
  return one(call.cast(real, dtype));
}

Result<Values> argument(Call& call, std::string_view op) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", 0, input->type.shape.size()));
  HTPIPE_TRY(const std::int64_t keep, call.integer("keepdims", 1));
  HTPIPE_TRY(const std::int64_t last, call.integer("select_last_index", 0));
  HTPIPE_TRY(Value * ordered, to_ordered(call, input, "ordered"));
  HTPIPE_TRY(Value * found,
             call.add(op, {{"axis", axis}, {"keep_dims", keep != 0}, {"select_last", last != 0}}, {ordered}, "i32"));
  return one(call.cast(found, DType::kI64));
}

struct Running {
  std::int64_t axis = 0;
  bool exclusive = false;
  bool reverse = false;
};

Result<Running> running_of(Call& call, const Value* input) {
  HTPIPE_TRY(const double given, number_input(call, 1));
  HTPIPE_TRY(const std::int64_t exclusive, call.integer("exclusive", 0));
  HTPIPE_TRY(const std::int64_t reverse, call.integer("reverse", 0));
  HTPIPE_TRY(const std::int64_t axis, normal_axis(static_cast<std::int64_t>(given), input->type.shape.size()));
  return Running{axis, exclusive != 0, reverse != 0};
}

}  // namespace

Result<Values> reduce_sum(Call& call) { return simple(call, "ReduceSum", 13); }
Result<Values> reduce_mean(Call& call) { return simple(call, "ReduceMean"); }
Result<Values> reduce_prod(Call& call) { return simple(call, "ReduceProd"); }
Result<Values> reduce_sum_square(Call& call) { return simple(call, "ReduceSumSquare"); }
Result<Values> reduce_max(Call& call) { return extreme(call, "ReduceMax"); }
Result<Values> reduce_min(Call& call) { return extreme(call, "ReduceMin"); }

Result<Values> reduce_l1(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const Axes axes, axes_of(call, 18));
  const bool is_unsigned = is_integer(input->type.dtype) && name_of(input->type.dtype).front() == 'u';
  if (!is_unsigned) {
    HTPIPE_TRY(input, call.unary("abs", input, "abs"));
  }
  return one(reduce(call, "ReduceSum", input, axes.axes, axes.keep));
}

Result<Values> reduce_l2(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const Axes axes, axes_of(call, 18));
  const DType dtype = input->type.dtype;
  if (!is_float(dtype)) {
    HTPIPE_TRY(input, call.cast(input, DType::kF32, "float"));
  }
  HTPIPE_TRY(Value * squares, reduce(call, "ReduceSumSquare", input, axes.axes, axes.keep, "squares"));
  return real_of(call, "sqrt", squares, dtype);
}

Result<Values> reduce_log_sum(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const Axes axes, axes_of(call, 18));
  const DType dtype = input->type.dtype;
  if (!is_float(dtype)) {
    HTPIPE_TRY(input, call.cast(input, DType::kF32, "float"));
  }
  HTPIPE_TRY(Value * sum, reduce(call, "ReduceSum", input, axes.axes, axes.keep, "sum"));
  return real_of(call, "log", sum, dtype);
}

Result<Values> reduce_log_sum_exp(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const Axes axes, axes_of(call, 18));
  const DType dtype = input->type.dtype;
  if (!is_float(dtype)) {
    HTPIPE_TRY(input, call.cast(input, DType::kF32, "float"));
  }
  // log(sum(exp(x - m))) + m with a finite m near the largest x: nothing overflows, infinities stay what they are.
  HTPIPE_TRY(Value * largest, reduce(call, "ReduceMax", input, axes.axes, true, "largest"));
  const float limit = input->type.dtype == DType::kF16 ? 65504.0F : std::numeric_limits<float>::max();
  HTPIPE_TRY(Value * finite,
             call.add("ElementWiseNeuron",
                      {{"operation", std::string("relu_min_max")}, {"min_value", -limit}, {"max_value", limit}},
                      {largest}, "finite"));
  HTPIPE_TRY(Value * less, call.binary("subtract", input, finite, "less"));
  HTPIPE_TRY(Value * power, call.unary("exp", less, "exp"));
  HTPIPE_TRY(Value * sum, reduce(call, "ReduceSum", power, axes.axes, axes.keep, "sum"));
  HTPIPE_TRY(Value * log, call.unary("log", sum, "log"));
  HTPIPE_TRY(Value * offset, call.reshape(finite, log->type.shape, "offset"));
  HTPIPE_TRY(Value * result, call.binary("add", log, offset, is_float(dtype) ? "" : "real"));
  return one(call.cast(result, dtype));
}

Result<Values> arg_max(Call& call) { return argument(call, "Argmax"); }
Result<Values> arg_min(Call& call) { return argument(call, "Argmin"); }

Result<Values> cum_sum(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const Running running, running_of(call, input));
  return one(call.add("CumulativeSum",
                      {{"axis", running.axis}, {"exclusive", running.exclusive}, {"reverse", running.reverse}},
                      {input}));
}

Result<Values> cum_prod(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const Running running, running_of(call, input));
  const std::int64_t size = input->type.shape[static_cast<std::size_t>(running.axis)];
  if (size > kLongestProduct) {
    return fail(Code::kUnsupportedForm, fmt::format("CumProd over {} elements; up to {}", size, kLongestProduct));
  }
  if (size == 0) return Values{input};
  Shape column = input->type.shape;
  column[static_cast<std::size_t>(running.axis)] = 1;
  Values products;
  Value* product = call.constant("one", filled({input->type.dtype, column, std::nullopt}, 1));
  for (std::int64_t step = 0; step < size; ++step) {
    const std::int64_t at = running.reverse ? size - 1 - step : step;
    if (running.exclusive) products.push_back(product);
    HTPIPE_TRY(Value * next, slice(call, input, running.axis, at, at + 1, fmt::format("column_{}", at)));
    if (step == 0) {
      product = next;
    } else {
      HTPIPE_TRY(product, call.binary("multiply", product, next, fmt::format("product_{}", at)));
    }
    if (!running.exclusive) products.push_back(product);
  }
  if (running.reverse) std::reverse(products.begin(), products.end());
  return one(concat(call, products, running.axis));
}

Result<Values> top_k(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", -1, input->type.shape.size()));
  HTPIPE_TRY(const std::int64_t largest, call.integer("largest", 1));
  HTPIPE_TRY(const std::int64_t sorted, call.integer("sorted", 1));
  std::int64_t k = 0;
  if (call.opset() >= 10) {
    HTPIPE_TRY(const double given, number_input(call, 1));
    k = static_cast<std::int64_t>(given);
  } else {
    HTPIPE_TRY(k, call.integer("k"));
  }
  const DType dtype = input->type.dtype;
  HTPIPE_TRY(Value * ordered, to_ordered(call, input, "ordered"));
  HTPIPE_TRY(const Values found,
             call.add_all("TopK", {{"k", k}, {"axis", axis}, {"largest", largest != 0}, {"sorted", sorted != 0}},
                          {ordered}, dtype == DType::kU64 ? "found" : ""));
  HTPIPE_TRY(Value * values, from_ordered(call, found[0], dtype));
  HTPIPE_TRY(Value * indices, call.cast(found[1], DType::kI64, "indices"));
  return Values{values, indices};
}

}  // namespace htpipe::onnx_import::map
