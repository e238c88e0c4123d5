// Normalising operators.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// [c] as [c, 1, 1 …], to meet channels that `spatial` axes follow.
Result<Value*> column(Call& call, Value* value, std::int64_t spatial, std::string_view suffix) {
  Shape shape = value->type.shape;
  shape.insert(shape.end(), static_cast<std::size_t>(spatial), 1);
  return call.reshape(value, shape, suffix);
}

struct ScaleShift {
  Value* weight = nullptr;
  Value* bias = nullptr;
};

/// (x - mean) / sqrt(variance + epsilon) * scale + shift as x * weight + bias.
Result<ScaleShift> scale_and_shift(Call& call, Value* scale, Value* shift, Value* mean, Value* variance,
                                   float epsilon) {
  const bool constant = scale->is_constant() && shift->is_constant() && mean->is_constant() && variance->is_constant();
  const bool alike = scale->type.shape == shift->type.shape && scale->type.shape == mean->type.shape &&
                     scale->type.shape == variance->type.shape;
  if (!alike) return fail(Code::kShapeMismatch, "scale, shift, mean and variance differ in shape");
  ScaleShift result;
  if (constant) {
    // In double, so that folding costs no precision.
    std::vector<float> weights;
    std::vector<float> biases;
    for (std::int64_t i = 0; i < scale->type.count(); ++i) {
      const double weight =
          scale->constant.real(i) / std::sqrt(variance->constant.real(i) + static_cast<double>(epsilon));
      weights.push_back(static_cast<float>(weight));
      biases.push_back(static_cast<float>(shift->constant.real(i) - mean->constant.real(i) * weight));
    }
    HTPIPE_TRY(result.weight,
               call.cast(call.floats("weight", scale->type.shape, weights), scale->type.dtype, "weight"));
    HTPIPE_TRY(result.bias, call.cast(call.floats("bias", scale->type.shape, biases), scale->type.dtype, "bias"));
    return result;
  }
  HTPIPE_TRY(Value * raised, call.binary("add", variance, static_cast<double>(epsilon), "raised"));
  HTPIPE_TRY(Value * inverse, call.unary("rsqrt", raised, "inverse"));
  HTPIPE_TRY(result.weight, call.binary("multiply", scale, inverse, "weight"));
  HTPIPE_TRY(Value * moved, call.binary("multiply", mean, result.weight, "moved"));
  HTPIPE_TRY(result.bias, call.binary("subtract", shift, moved, "bias"));
  return result;
}

/// Batch statistics instead of stored ones; results as ONNX has them since opset 14.
Result<Values> train_batch_norm(Call& call, Value* input, Value* scale, Value* shift, float epsilon) {
  HTPIPE_TRY(Value * old_mean, call.input(3));
  HTPIPE_TRY(Value * old_variance, call.input(4));
  HTPIPE_TRY(const float momentum, call.real("momentum", 0.9F));
  const std::int64_t rank = rank_of(input);
  IntList axes = count_up(2, rank);
  axes.insert(axes.begin(), 0);
  HTPIPE_TRY(Value * mean, reduce(call, "ReduceMean", input, axes, false, "mean"));
  HTPIPE_TRY(Value * mean_column, column(call, mean, rank - 2, "mean_column"));
  HTPIPE_TRY(Value * centred, call.binary("subtract", input, mean_column, "centred"));
  HTPIPE_TRY(Value * squares, call.binary("multiply", centred, centred, "squares"));
  HTPIPE_TRY(Value * variance, reduce(call, "ReduceMean", squares, axes, false, "variance"));
  HTPIPE_TRY(const ScaleShift folded, scale_and_shift(call, scale, shift, mean, variance, epsilon));
  HTPIPE_TRY(Value * result, call.add("Batchnorm", {}, {input, folded.weight, folded.bias}));
  const auto running = [&](Value* old, Value* now, std::string_view name) -> Result<Value*> {
    HTPIPE_TRY(Value * kept, call.binary("multiply", old, static_cast<double>(momentum), fmt::format("{}_kept", name)));
    HTPIPE_TRY(Value * gained,
               call.binary("multiply", now, 1.0 - static_cast<double>(momentum), fmt::format("{}_gained", name)));
    return call.binary("add", kept, gained, name);
  };
  HTPIPE_TRY(Value * new_mean, running(old_mean, mean, "running_mean"));
  HTPIPE_TRY(Value * new_variance, running(old_variance, variance, "running_variance"));
  return Values{result, new_mean, new_variance};
}

/// `value`, which broadcasts to `shape`, as an operand with exactly the elements of the axes from `axis` on; null when
/// it differs along the axes before.
Result<Value*> per_position(Call& call, Value* value, const Shape& shape, std::int64_t axis, std::string_view suffix) {
  const Shape inner(shape.begin() + axis, shape.end());
  Shape own = value->type.shape;
  while (own.size() > inner.size() && own.front() == 1) own.erase(own.begin());
  if (own.size() > inner.size()) return nullptr;
  HTPIPE_TRY(Value * same_rank, call.reshape(value, own, fmt::format("{}_own", suffix)));
  return call.expand(same_rank, inner, suffix);
}

/// LayerNorm or RmsNorm over the axes from `axis` on, scaled and shifted by operands that broadcast.
Result<Value*> positional_norm(Call& call, std::string_view op, Value* input, Value* scale, Value* shift,
                               std::int64_t axis, float epsilon) {
  const Attributes attributes = {{"axes", count_up(axis, rank_of(input))}, {"epsilon", epsilon}};
  const Shape& shape = input->type.shape;
  Value* gamma = nullptr;
  Value* beta = nullptr;
  HTPIPE_TRY(gamma, per_position(call, scale, shape, axis, "gamma"));
  if (shift != nullptr) {
    HTPIPE_TRY(beta, per_position(call, shift, shape, axis, "beta"));
  }
  const bool fused = gamma != nullptr && (shift == nullptr || beta != nullptr);
  if (fused) {
    std::vector<Value*> operands = {input, gamma};
    if (beta != nullptr) operands.push_back(beta);
    return call.add(op, attributes, std::move(operands));
  }
  HTPIPE_TRY(Value * normal, call.add(op, attributes, {input}, "normal"));
  HTPIPE_TRY(Value * result, call.binary("multiply", normal, scale, shift != nullptr ? "scaled" : ""));
  return shift != nullptr ? call.binary("add", result, shift) : Result<Value*>(result);
}

/// Mean and 1 / sqrt(variance + epsilon) over the axes from `axis` on, which stay with size 1, in float32.
Result<Values> moments(Call& call, Value* input, std::int64_t axis, float epsilon) {
  const IntList axes = count_up(axis, rank_of(input));
  HTPIPE_TRY(Value * wide, call.cast(input, DType::kF32, "wide"));
  HTPIPE_TRY(Value * mean, reduce(call, "ReduceMean", wide, axes, true, "mean"));
  HTPIPE_TRY(Value * centred, call.binary("subtract", wide, mean, "centred"));
  HTPIPE_TRY(Value * squares, call.binary("multiply", centred, centred, "squares"));
  HTPIPE_TRY(Value * variance, reduce(call, "ReduceMean", squares, axes, true, "variance"));
  HTPIPE_TRY(Value * raised, call.binary("add", variance, static_cast<double>(epsilon), "raised"));
  HTPIPE_TRY(Value * inverse, call.unary("rsqrt", raised, "inverse"));
  return Values{mean, inverse};
}

}  // namespace

Result<Values> batch_normalization(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * scale, call.input(1));
  HTPIPE_TRY(Value * shift, call.input(2));
  HTPIPE_TRY(Value * mean, call.input(3));
  HTPIPE_TRY(Value * variance, call.input(4));
  HTPIPE_TRY(const float epsilon, call.real("epsilon", 1e-5F));
  HTPIPE_TRY(const std::int64_t training, call.integer("training_mode", 0));
  HTPIPE_TRY(const std::int64_t spatial, call.integer("spatial", 1));
  if (rank_of(input) < 2) return fail(Code::kUnsupportedForm, "BatchNormalization without a channel axis");
  if (training != 0) return train_batch_norm(call, input, scale, shift, epsilon);
  for (std::size_t i = 1; i < call.output_count(); ++i) {
    if (call.wants(i)) return fail(Code::kUnsupportedForm, "statistics of a BatchNormalization that does not train");
  }
  HTPIPE_TRY(const ScaleShift folded, scale_and_shift(call, scale, shift, mean, variance, epsilon));
  if (spatial != 0) return one(call.add("Batchnorm", {}, {input, folded.weight, folded.bias}));
  // Opset 7 may have statistics for each position.
  HTPIPE_TRY(Value * product, call.binary("multiply", input, folded.weight, "scaled"));
  return one(call.binary("add", product, folded.bias));
}

Result<Values> instance_normalization(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * scale, call.input(1));
  HTPIPE_TRY(Value * shift, call.input(2));
  HTPIPE_TRY(const float epsilon, call.real("epsilon", 1e-5F));
  return one(call.add("InstanceNorm", {{"epsilon", epsilon}}, {input, scale, shift}));
}

Result<Values> group_normalization(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * scale, call.input(1));
  HTPIPE_TRY(Value * shift, call.input(2));
  HTPIPE_TRY(const float epsilon, call.real("epsilon", 1e-5F));
  HTPIPE_TRY(const std::int64_t groups, call.integer("num_groups"));
  if (rank_of(input) < 2 || groups < 1) return fail(Code::kUnsupportedForm, "GroupNormalization without groups");
  const std::int64_t channels = input->type.shape[1];
  // Opset 18 has one scale per group.
  const auto per_channel = [&](Value* value, std::string_view name) -> Result<Value*> {
    if (call.opset() >= 21 || value->type.shape != Shape{groups} || channels % groups != 0) return value;
    HTPIPE_TRY(Value * rows, call.reshape(value, {groups, 1}, fmt::format("{}_groups", name)));
    HTPIPE_TRY(Value * repeated, call.expand(rows, {groups, channels / groups}, fmt::format("{}_repeated", name)));
    return call.reshape(repeated, {channels}, name);
  };
  HTPIPE_TRY(Value * gamma, per_channel(scale, "gamma"));
  HTPIPE_TRY(Value * beta, per_channel(shift, "beta"));
  return one(call.add("GroupNorm", {{"group", groups}, {"epsilon", epsilon}}, {input, gamma, beta}));
}

Result<Values> layer_normalization(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * scale, call.input(1));
  HTPIPE_TRY(const float epsilon, call.real("epsilon", 1e-5F));
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", -1, input->type.shape.size()));
  HTPIPE_TRY(Value * result, positional_norm(call, "LayerNorm", input, scale, call.optional_input(2), axis, epsilon));
  if (!call.wants(1) && !call.wants(2)) return Values{result};
  HTPIPE_TRY(const Values both, moments(call, input, axis, epsilon));
  return Values{result, both[0], both[1]};
}

Result<Values> rms_normalization(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * scale, call.input(1));
  HTPIPE_TRY(const float epsilon, call.real("epsilon", 1e-5F));
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", -1, input->type.shape.size()));
  if (call.wants(1)) return fail(Code::kUnsupportedForm, "the second output of an RMS normalisation");
  return one(positional_norm(call, "RmsNorm", input, scale, nullptr, axis, epsilon));
}

Result<Values> lrn(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const std::int64_t size, call.integer("size"));
  HTPIPE_TRY(const float alpha, call.real("alpha", 1e-4F));
  HTPIPE_TRY(const float beta, call.real("beta", 0.75F));
  HTPIPE_TRY(const float bias, call.real("bias", 1.0F));
  if (size < 1) return fail(Code::kOnnxInvalid, fmt::format("LRN over {} channels", size));
  return one(call.add("Lrn",
                      {{"radius", (size - 1) / 2},
                       {"radius_after", size / 2},
                       {"alpha", alpha / static_cast<float>(size)},
                       {"beta", beta},
                       {"bias", bias}},
                      {input}));
}

Result<Values> lp_normalization(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", -1, input->type.shape.size()));
  HTPIPE_TRY(const std::int64_t p, call.integer("p", 2));
  if (p == 2) return one(call.add("L2Norm", {{"axes", IntList{axis}}}, {input}));
  if (p != 1) return fail(Code::kUnsupportedForm, fmt::format("LpNormalization with p {}", p));
  HTPIPE_TRY(Value * magnitude, call.unary("abs", input, "abs"));
  HTPIPE_TRY(Value * sum, reduce(call, "ReduceSum", magnitude, {axis}, true, "sum"));
  HTPIPE_TRY(Value * divisor, call.binary("maximum", sum, 1e-12, "divisor"));
  return one(call.binary("divide", input, divisor));
}

Result<Values> mean_variance_normalization(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const IntList given, call.ints("axes", {0, 2, 3}));
  IntList axes;
  for (const std::int64_t axis : given) {
    HTPIPE_TRY(const std::int64_t normal, normal_axis(axis, input->type.shape.size()));
    axes.push_back(normal);
  }
  std::sort(axes.begin(), axes.end());
  // ONNX adds 1e-9 to the deviation: the root of this one, where the variance is 0.
  return one(call.add("LayerNorm", {{"axes", axes}, {"epsilon", 1e-18F}}, {input}));
}

}  // namespace htpipe::onnx_import::map
