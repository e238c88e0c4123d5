// Operators that make one number of many: sums, extrema, norms, statistics, running sums.
#include <cmath>
#include <limits>

#include "import/compose/pool.h"
#include "import/pt2/mappers.h"

namespace htpipe::pt2 {
namespace {

struct Axes {
  IntList axes;
  bool keep = false;
};

/// The axes that are reduced: `dim` as one or a list, all when it is missing.
Result<Axes> reduced_axes(Call& call, const Value* input) {
  HTPIPE_TRY(IntList axes, call.axes("dim", input->type.shape.size()));
  HTPIPE_TRY(const bool keep, call.flag("keepdim", false));
  return Axes{std::move(axes), keep};
}

std::int64_t count_of(const Value* input, const IntList& axes) {
  std::int64_t count = 1;
  for (const std::int64_t axis : axes) count *= input->type.shape[static_cast<std::size_t>(axis)];
  return count;
}

One typed_input(Call& call, DType dtype) {
  HTPIPE_TRY(Value * input, call.tensor(call.node().input("self") != nullptr ? "self" : "x"));
  return call.cast(input, dtype, "input");
}

/// Mean and the sum of squared distances from it, divided by count - correction.
Result<std::pair<Value*, Value*>> moments(Call& call, Value* input, const Axes& over, double correction,
                                          std::string_view suffix) {
  HTPIPE_TRY(Value * centre, call.reduce("ReduceMean", input, over.axes, true, "centre"));
  HTPIPE_TRY(Value * distance, call.binary("subtract", input, centre, "distance"));
  HTPIPE_TRY(Value * square, call.binary("multiply", distance, distance, "square"));
  Value* mean = centre;
  if (!over.keep) {
    HTPIPE_TRY(mean, call.reduce("ReduceMean", input, over.axes, false, "mean"));
  }
  const auto count = static_cast<double>(count_of(input, over.axes));
  if (correction == 0.0) {
    HTPIPE_TRY(Value * variance, call.reduce("ReduceMean", square, over.axes, over.keep, suffix));
    return std::pair{variance, mean};
  }
  HTPIPE_TRY(Value * sum, call.reduce("ReduceSum", square, over.axes, over.keep, "sum"));
  const double rest = count - correction;
  HTPIPE_TRY(Value * factor,
             call.scalar(rest > 0 ? 1.0 / rest : std::numeric_limits<double>::infinity(), DType::kF32, "factor"));
  HTPIPE_TRY(Value * variance, call.binary("multiply", sum, factor, suffix));
  return std::pair{variance, mean};
}

Result<double> correction_of(const Call& call) {
  if (call.node().input("unbiased") != nullptr) {
    HTPIPE_TRY(const bool unbiased, call.flag("unbiased", true));
    return unbiased ? 1.0 : 0.0;
  }
  return call.real("correction", 1.0);
}

/// The p-norm over the axes.
One norm_of(Call& call, Value* input, double p, const Axes& over) {
  HTPIPE_TRY(input, call.cast(input, DType::kF32, "input"));
  if (p == 2.0) {
    HTPIPE_TRY(Value * sum, call.reduce("ReduceSumSquare", input, over.axes, over.keep, "sum"));
    if (over.axes.empty()) return call.unary("abs", input);
    return call.unary("sqrt", sum);
  }
  HTPIPE_TRY(Value * size, call.unary("abs", input, "abs"));
  if (p == 1.0) return call.reduce("ReduceSum", size, over.axes, over.keep);
  if (std::isinf(p)) return call.reduce(p > 0 ? "ReduceMax" : "ReduceMin", size, over.axes, over.keep);
  if (p == 0.0) {
    HTPIPE_TRY(Value * zero, call.scalar(0.0, DType::kF32, "zero"));
    HTPIPE_TRY(Value * filled, call.binary("not_equal", size, zero, "filled"));
    HTPIPE_TRY(Value * ones, call.cast(filled, DType::kF32, "ones"));
    return call.reduce("ReduceSum", ones, over.axes, over.keep);
  }
  HTPIPE_TRY(Value * exponent, call.scalar(p, DType::kF32, "p"));
  HTPIPE_TRY(Value * inverse, call.scalar(1.0 / p, DType::kF32, "inverse"));
  HTPIPE_TRY(Value * power, call.binary("power", size, exponent, "power"));
  HTPIPE_TRY(Value * sum, call.reduce("ReduceSum", power, over.axes, over.keep, "sum"));
  return call.binary("power", sum, inverse);
}

}  // namespace

One reduce(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(Value * input, typed_input(call, dtype));
  HTPIPE_TRY(const Axes over, reduced_axes(call, input));
  if (dtype == DType::kBool) {
    HTPIPE_TRY(input, call.cast(input, DType::kI32, "numbers"));
  }
  return call.reduce(call.argument(), input, over.axes, over.keep);
}

/// Mean over the two spatial axes of an image is a global pool, which the chip has.
One mean(Call& call) {
  HTPIPE_TRY(Value * input, typed_input(call, DType::kF32));
  HTPIPE_TRY(const Axes over, reduced_axes(call, input));
  const Shape shape = input->type.shape;
  if (shape.size() != 4 || over.axes != IntList{2, 3} || input->type.count() == 0) {
    return call.reduce("ReduceMean", input, over.axes, over.keep);
  }
  HTPIPE_TRY(Value * pooled, compose::global_pool(call.builder(), input, compose::PoolKind::kAverage));
  return over.keep ? One(pooled) : call.reshape(pooled, {shape[0], shape[1]}, "flat");
}

/// any: is there a number that is not 0; all: is there none that is 0.
One any_all(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const Axes over, reduced_axes(call, input));
  HTPIPE_TRY(Value * truth, call.cast(input, DType::kBool, "truth"));
  if (over.axes.empty()) return truth;
  HTPIPE_TRY(Value * numbers, call.cast(truth, DType::kI32, "numbers"));
  HTPIPE_TRY(Value * reduced, call.reduce(call.argument() == "any" ? "ReduceMax" : "ReduceMin", numbers, over.axes,
                                          over.keep, "reduced"));
  return call.cast(reduced, DType::kBool, "");
}

One count_nonzero(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const Axes over, reduced_axes(call, input));
  HTPIPE_TRY(Value * truth, call.cast(input, DType::kBool, "truth"));
  HTPIPE_TRY(Value * numbers, call.cast(truth, DType::kI64, "numbers"));
  return call.reduce("ReduceSum", numbers, over.axes, false);
}

Many aminmax(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const Axes over, reduced_axes(call, input));
  HTPIPE_TRY(Value * low, call.reduce("ReduceMin", input, over.axes, over.keep, "min"));
  HTPIPE_TRY(Value * high, call.reduce("ReduceMax", input, over.axes, over.keep, "max"));
  return Values{low, high};
}

/// max.dim and min.dim: the extremum and where it is first.
Many extremum_along(Call& call) {
  const bool max = call.argument() == "max";
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const Axes over, reduced_axes(call, input));
  if (over.axes.size() > 1) return fail(Code::kUnsupportedForm, "an extremum along several axes");
  HTPIPE_TRY(Value * value, call.reduce(max ? "ReduceMax" : "ReduceMin", input, over.axes, over.keep));
  if (!call.used(1)) return Values{value};
  if (over.axes.empty()) {
    HTPIPE_TRY(Value * zero, call.integers_constant("index", {}, {0}));
    return Values{value, zero};
  }
  HTPIPE_TRY(Value * index, call.add(max ? "Argmax" : "Argmin", {{"axis", over.axes.front()}, {"keep_dims", over.keep}},
                                     {input}, "index"));
  return Values{value, index};
}

One arg_extremum(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("self"));
  HTPIPE_TRY(const bool keep, call.flag("keepdim", false));
  const TensorMeta* meta = call.declared();
  if (meta == nullptr) return fail(Code::kUnsupportedForm, "a result whose type is not declared");
  const std::string op(call.argument());
  if (input->type.shape.empty()) return call.integers_constant("index", {}, {0});
  if (input->type.dtype == DType::kBool) {
    HTPIPE_TRY(input, call.cast(input, DType::kI32, "numbers"));
  }
  if (!call.has("dim")) {
    HTPIPE_TRY(Value * flat, call.reshape(input, {input->type.count()}, "flat"));
    HTPIPE_TRY(Value * index, call.add(op, {{"axis", std::int64_t{0}}, {"keep_dims", false}}, {flat}, "index"));
    return call.reshape(index, meta->sizes);
  }
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", input->type.shape.size()));
  return call.add(op, {{"axis", axis}, {"keep_dims", keep}}, {input});
}

/// var, std.
One variance(Call& call) {
  HTPIPE_TRY(Value * input, typed_input(call, DType::kF32));
  HTPIPE_TRY(const Axes over, reduced_axes(call, input));
  HTPIPE_TRY(const double correction, correction_of(call));
  const bool root = call.argument() == "std";
  HTPIPE_TRY(const auto pair, moments(call, input, over, correction, root ? "variance" : ""));
  return root ? call.unary("sqrt", pair.first) : One(pair.first);
}

/// var_mean, std_mean.
Many variance_mean(Call& call) {
  HTPIPE_TRY(Value * input, typed_input(call, DType::kF32));
  HTPIPE_TRY(const Axes over, reduced_axes(call, input));
  HTPIPE_TRY(const double correction, correction_of(call));
  const bool root = call.argument() == "std";
  HTPIPE_TRY(const auto pair, moments(call, input, over, correction, root ? "variance" : ""));
  if (!root) return Values{pair.first, pair.second};
  HTPIPE_TRY(Value * deviation, call.unary("sqrt", pair.first));
  return Values{deviation, pair.second};
}

/// norm, linalg_vector_norm, frobenius_norm.
One vector_norm(Call& call) {
  HTPIPE_TRY(Value * input, typed_input(call, DType::kF32));
  HTPIPE_TRY(const Axes over, reduced_axes(call, input));
  HTPIPE_TRY(const double p, call.real(call.node().input("ord") != nullptr ? "ord" : "p", 2.0));
  return norm_of(call, input, p, over);
}

One linalg_norm(Call& call) {
  HTPIPE_TRY(Value * input, typed_input(call, DType::kF32));
  HTPIPE_TRY(const Axes over, reduced_axes(call, input));
  if (call.has("ord") && over.axes.size() != 1) return fail(Code::kUnsupportedForm, "a norm of matrices");
  HTPIPE_TRY(const double p, call.real("ord", 2.0));
  return norm_of(call, input, p, over);
}

/// The distance of two tensors: norm(x1 - x2 + eps) along the last axis.
One pairwise_distance(Call& call) {
  HTPIPE_TRY(Value * a, call.tensor("x1"));
  HTPIPE_TRY(Value * b, call.tensor("x2"));
  HTPIPE_TRY(const double p, call.real("p", 2.0));
  HTPIPE_TRY(const double eps, call.real("eps", 1e-6));
  HTPIPE_TRY(const bool keep, call.flag("keepdim", false));
  HTPIPE_TRY(Value * difference, call.binary("subtract", a, b, "difference"));
  HTPIPE_TRY(Value * epsilon, call.scalar(eps, DType::kF32, "eps"));
  HTPIPE_TRY(difference, call.binary("add", difference, epsilon, "shifted"));
  if (difference->type.shape.empty()) return fail(Code::kUnsupportedForm, "a distance of scalars");
  return norm_of(call, difference, p, {{rank_of(difference) - 1}, keep});
}

/// max + log(sum(exp(x - max))); rows without a finite number have no largest one to subtract.
One logsumexp(Call& call) {
  HTPIPE_TRY(Value * input, typed_input(call, DType::kF32));
  HTPIPE_TRY(const Axes over, reduced_axes(call, input));
  if (over.axes.empty()) return input;
  HTPIPE_TRY(Value * high, call.reduce("ReduceMax", input, over.axes, true, "high"));
  HTPIPE_TRY(high, call.add("ElementWiseNeuron",
                            {{"operation", std::string("relu_min_max")},
                             {"min_value", std::numeric_limits<float>::lowest()},
                             {"max_value", std::numeric_limits<float>::max()}},
                            {high}, "finite"));
  HTPIPE_TRY(Value * difference, call.binary("subtract", input, high, "difference"));
  HTPIPE_TRY(Value * exp, call.unary("exp", difference, "exp"));
  HTPIPE_TRY(Value * sum, call.reduce("ReduceSum", exp, over.axes, true, "sum"));
  HTPIPE_TRY(Value * log, call.unary("log", sum, "log"));
  const TensorMeta* meta = call.declared();
  if (over.keep || meta == nullptr) return call.binary("add", log, high);
  HTPIPE_TRY(Value * result, call.binary("add", log, high, "kept"));
  return call.reshape(result, meta->sizes);
}

One cumulative_sum(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(Value * input, typed_input(call, dtype));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", input->type.shape.size()));
  if (input->type.shape.empty()) return input;
  return call.add("CumulativeSum", {{"axis", axis}}, {input});
}

/// Running products, one step at a time: only for short axes.
One cumulative_product(Call& call) {
  constexpr std::int64_t kLongest = 64;
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(Value * input, typed_input(call, dtype));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", input->type.shape.size()));
  if (input->type.count() == 0 || input->type.shape.empty()) return input;
  const std::int64_t size = input->type.shape[static_cast<std::size_t>(axis)];
  if (size > kLongest) return fail(Code::kUnsupportedForm, "cumprod along more than 64 elements");
  Values steps;
  for (std::int64_t i = 0; i < size; ++i) {
    HTPIPE_TRY(Value * step, call.slice(input, axis, i, i + 1, "step"));
    if (i > 0) {
      HTPIPE_TRY(step, call.binary("multiply", steps.back(), step, "product"));
    }
    steps.push_back(step);
  }
  return call.concat(std::move(steps), axis);
}

One softmax(Call& call) {
  HTPIPE_TRY(Value * input, typed_input(call, DType::kF32));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", input->type.shape.size()));
  const std::string op(call.argument());
  if (!input->type.shape.empty()) return call.add(op, {{"axis", axis}}, {input});
  HTPIPE_TRY(Value * row, call.reshape(input, {1}, "row"));
  HTPIPE_TRY(Value * result, call.add(op, {{"axis", std::int64_t{0}}}, {row}, "result"));
  return call.reshape(result, {});
}

}  // namespace htpipe::pt2
