// Normalisations.
#include <fmt/core.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "import/pt2/mappers.h"
#include "ops/broadcast.h"

namespace htpipe::pt2 {
namespace {

const Shape& shape_of(const Value* value) { return value->type.shape; }

One ones_or(Call& call, const char* name, std::int64_t channels, float value) {
  HTPIPE_TRY(Value * given, call.optional_tensor(name));
  if (given != nullptr) return given;
  return call.constant(name, {channels}, std::vector<float>(static_cast<std::size_t>(channels), value));
}

/// (x - mean) * 1 / sqrt(variance + eps) over all axes but the channels', with statistics of the input itself.
One normalised_by_itself(Call& call, Value* input, double epsilon) {
  IntList axes;
  for (std::int64_t axis = 0; axis < rank_of(input); ++axis) {
    if (axis != 1) axes.push_back(axis);
  }
  Shape column(shape_of(input).size() - 1, 1);
  column[0] = shape_of(input)[1];
  HTPIPE_TRY(Value * mean, call.reduce("ReduceMean", input, axes, true, "mean"));
  HTPIPE_TRY(Value * distance, call.binary("subtract", input, mean, "distance"));
  HTPIPE_TRY(Value * square, call.binary("multiply", distance, distance, "square"));
  HTPIPE_TRY(Value * variance, call.reduce("ReduceMean", square, axes, true, "variance"));
  HTPIPE_TRY(Value * eps, call.scalar(epsilon, DType::kF32, "eps"));
  HTPIPE_TRY(Value * sum, call.binary("add", variance, eps, "sum"));
  HTPIPE_TRY(Value * factor, call.unary("rsqrt", sum, "factor"));
  HTPIPE_TRY(Value * weight, call.optional_tensor("weight"));
  HTPIPE_TRY(Value * bias, call.optional_tensor("bias"));
  const bool plain = weight == nullptr && bias == nullptr;
  HTPIPE_TRY(Value * result, call.binary("multiply", distance, factor, plain ? "" : "normalised"));
  if (weight != nullptr) {
    HTPIPE_TRY(weight, call.reshape(weight, column, "weight"));
    HTPIPE_TRY(result, call.binary("multiply", result, weight, bias == nullptr ? "" : "weighted"));
  }
  if (bias != nullptr) {
    HTPIPE_TRY(bias, call.reshape(bias, column, "bias"));
    HTPIPE_TRY(result, call.binary("add", result, bias));
  }
  return result;
}

/// Statistics of the training become one scale and one shift per channel.
One normalised_by_constants(Call& call, Value* input, double epsilon) {
  HTPIPE_TRY(const std::vector<float> mean, call.floats("running_mean"));
  HTPIPE_TRY(const std::vector<float> variance, call.floats("running_var"));
  std::vector<float> gamma(mean.size(), 1.0F);
  std::vector<float> beta(mean.size(), 0.0F);
  if (call.has("weight")) {
    HTPIPE_TRY(gamma, call.floats("weight"));
  }
  if (call.has("bias")) {
    HTPIPE_TRY(beta, call.floats("bias"));
  }
  if (variance.size() != mean.size() || gamma.size() != mean.size() || beta.size() != mean.size()) {
    return fail(Code::kShapeMismatch, "batch_norm statistics differ in size");
  }
  std::vector<float> scale(mean.size());
  std::vector<float> shift(mean.size());
  for (std::size_t c = 0; c < mean.size(); ++c) {
    const double factor = static_cast<double>(gamma[c]) / std::sqrt(static_cast<double>(variance[c]) + epsilon);
    scale[c] = static_cast<float>(factor);
    shift[c] = static_cast<float>(static_cast<double>(beta[c]) - static_cast<double>(mean[c]) * factor);
  }
  const Shape channels = {static_cast<std::int64_t>(mean.size())};
  HTPIPE_TRY(Value * weights, call.constant("scale", channels, scale));
  HTPIPE_TRY(Value * biases, call.constant("shift", channels, shift));
  return call.add("Batchnorm", {}, {input, weights, biases});
}

/// The axes that a normalized_shape of that many sizes means.
Result<IntList> last_axes(Call& call, const Value* input) {
  HTPIPE_TRY(const IntList shape, call.integers("normalized_shape", 0));
  if (shape.empty() || shape.size() > shape_of(input).size()) {
    return fail(Code::kUnsupportedForm, "a normalised shape of higher rank than its tensor");
  }
  IntList axes(shape.size());
  std::iota(axes.begin(), axes.end(), rank_of(input) - static_cast<std::int64_t>(shape.size()));
  return axes;
}

}  // namespace

One batch_norm(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("input"));
  HTPIPE_TRY(input, call.cast(input, DType::kF32, "input"));
  HTPIPE_TRY(const double epsilon, call.real("eps", 1e-5));
  if (shape_of(input).size() < 2) return fail(Code::kUnsupportedForm, "batch_norm of " + to_string(shape_of(input)));
  const bool statistics = call.has("running_mean") && call.has("running_var");
  return statistics ? normalised_by_constants(call, input, epsilon) : normalised_by_itself(call, input, epsilon);
}

/// The functional forms: only the first result is the normalised tensor.
Many batch_norm_many(Call& call) {
  HTPIPE_TRY(Value * result, batch_norm(call));
  return Values{result};
}

One instance_norm(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("input"));
  HTPIPE_TRY(const bool own, call.flag("use_input_stats", true));
  HTPIPE_TRY(const double epsilon, call.real("eps", 1e-5));
  if (!own) return normalised_by_constants(call, input, epsilon);
  if (shape_of(input).size() < 3) return fail(Code::kUnsupportedForm, "instance_norm of " + to_string(shape_of(input)));
  HTPIPE_TRY(Value * gamma, ones_or(call, "weight", shape_of(input)[1], 1.0F));
  HTPIPE_TRY(Value * beta, ones_or(call, "bias", shape_of(input)[1], 0.0F));
  return call.add("InstanceNorm", {{"epsilon", static_cast<float>(epsilon)}, {"data_layout", std::string("nchw")}},
                  {input, gamma, beta});
}

One layer_norm(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("input"));
  HTPIPE_TRY(Value * gamma, call.optional_tensor("weight"));
  HTPIPE_TRY(Value * beta, call.optional_tensor("bias"));
  HTPIPE_TRY(const IntList axes, last_axes(call, input));
  HTPIPE_TRY(const double epsilon, call.real("eps", 1e-5));
  return call.add("LayerNorm", {{"axes", axes}, {"epsilon", static_cast<float>(epsilon)}}, {input, gamma, beta});
}

Many layer_norm_many(Call& call) {
  HTPIPE_TRY(Value * result, layer_norm(call));
  return Values{result};
}

One rms_norm(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("input"));
  HTPIPE_TRY(Value * gamma, call.optional_tensor("weight"));
  HTPIPE_TRY(const IntList axes, last_axes(call, input));
  // Without a number PyTorch takes the resolution of the type.
  const TensorMeta* meta = call.declared();
  const bool half = meta != nullptr && meta->dtype == DType::kF16;
  const bool brain = meta != nullptr && meta->dtype == DType::kBF16;
  const double resolution = half    ? 0.0009765625
                            : brain ? 0.0078125
                                    : static_cast<double>(std::numeric_limits<float>::epsilon());
  HTPIPE_TRY(const double epsilon, call.real("eps", resolution));
  return call.add("RmsNorm", {{"axes", axes}, {"epsilon", static_cast<float>(epsilon)}}, {input, gamma, nullptr});
}

Many rms_norm_many(Call& call) {
  HTPIPE_TRY(Value * result, rms_norm(call));
  return Values{result};
}

One group_norm(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("input"));
  const bool native = call.node().input("num_groups") == nullptr;
  HTPIPE_TRY(const std::int64_t groups, call.integer(native ? "group" : "num_groups"));
  HTPIPE_TRY(const double epsilon, call.real("eps", 1e-5));
  if (shape_of(input).size() < 2) return fail(Code::kUnsupportedForm, "group_norm of " + to_string(shape_of(input)));
  HTPIPE_TRY(Value * gamma, ones_or(call, "weight", shape_of(input)[1], 1.0F));
  HTPIPE_TRY(Value * beta, ones_or(call, "bias", shape_of(input)[1], 0.0F));
  const Attributes attributes{
      {"group", groups}, {"epsilon", static_cast<float>(epsilon)}, {"data_layout", std::string("nchw")}};
  if (shape_of(input).size() > 2) return call.add("GroupNorm", attributes, {input, gamma, beta});
  const Shape shape = shape_of(input);
  HTPIPE_TRY(Value * wide, call.reshape(input, {shape[0], shape[1], 1}, "wide"));
  HTPIPE_TRY(Value * result, call.add("GroupNorm", attributes, {wide, gamma, beta}, "normalised"));
  return call.reshape(result, shape);
}

Many group_norm_many(Call& call) {
  HTPIPE_TRY(Value * result, group_norm(call));
  return Values{result};
}

/// v * (g / norm of v over all axes but one).
One weight_norm(Call& call) {
  HTPIPE_TRY(Value * v, call.tensor("v"));
  HTPIPE_TRY(Value * g, call.tensor("g"));
  HTPIPE_TRY(std::int64_t dim, call.integer("dim", 0));
  IntList axes;
  if (dim < -1 || dim >= rank_of(v)) return fail(Code::kUnsupportedForm, "weight_norm of this axis");
  for (std::int64_t axis = 0; axis < rank_of(v); ++axis) {
    if (dim == -1 || axis != dim) axes.push_back(axis);
  }
  HTPIPE_TRY(Value * sum, call.reduce("ReduceSumSquare", v, axes, true, "sum"));
  HTPIPE_TRY(Value * norm, call.unary("sqrt", sum, "norm"));
  HTPIPE_TRY(Value * factor, call.binary("divide", g, norm, "factor"));
  return call.binary("multiply", v, factor);
}

Many weight_norm_many(Call& call) {
  HTPIPE_TRY(Value * result, weight_norm(call));
  return Values{result};
}

/// sum(a * b) / (max(|a|, eps) * max(|b|, eps)).
One cosine_similarity(Call& call) {
  HTPIPE_TRY(Value * a, call.tensor("x1"));
  HTPIPE_TRY(Value * b, call.tensor("x2"));
  HTPIPE_TRY(const double eps, call.real("eps", 1e-8));
  HTPIPE_TRY(const Shape shape, ops::broadcast(shape_of(a), shape_of(b)));
  HTPIPE_TRY(const std::int64_t axis, call.axis("dim", shape.size(), 1));
  HTPIPE_TRY(a, call.broadcast(a, shape, "a"));
  HTPIPE_TRY(b, call.broadcast(b, shape, "b"));
  HTPIPE_TRY(Value * least, call.scalar(eps, DType::kF32, "eps"));
  const auto length = [&](Value* x, const std::string& name) -> One {
    HTPIPE_TRY(Value * sum, call.reduce("ReduceSumSquare", x, {axis}, false, name + "_sum"));
    HTPIPE_TRY(Value * root, call.unary("sqrt", sum, name + "_root"));
    return call.binary("maximum", root, least, name + "_length");
  };
  HTPIPE_TRY(Value * a_length, length(a, "a"));
  HTPIPE_TRY(Value * b_length, length(b, "b"));
  HTPIPE_TRY(Value * product, call.binary("multiply", a, b, "product"));
  HTPIPE_TRY(Value * dot, call.reduce("ReduceSum", product, {axis}, false, "dot"));
  HTPIPE_TRY(Value * lengths, call.binary("multiply", a_length, b_length, "lengths"));
  return call.binary("divide", dot, lengths);
}

}  // namespace htpipe::pt2
