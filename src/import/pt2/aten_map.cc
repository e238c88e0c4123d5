#include "import/pt2/aten_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace htpipe::pt2 {
namespace {

using IntList = std::vector<std::int64_t>;
using Out = Result<htpipe::Value*>;

Result<IntList> symmetric_padding(const Call& call, std::string_view name) {
  HTPIPE_TRY(const IntList pad, call.integers(name, 2, {0, 0}));
  return IntList{pad[0], pad[0], pad[1], pad[1]};
}

/// aten::conv2d and aten::convolution (not transposed).
Out conv2d(Call& call) {
  HTPIPE_TRY(const bool transposed, call.flag("transposed", false));
  if (transposed) return fail(Code::kUnsupportedForm, "transposed convolution is not imported yet");
  HTPIPE_TRY(htpipe::Value * input, call.tensor("input"));
  HTPIPE_TRY(htpipe::Value * weight, call.tensor("weight"));
  HTPIPE_TRY(htpipe::Value * bias, call.optional_tensor("bias"));
  if (input->type.shape.size() != 4 || weight->type.shape.size() != 4) {
    return fail(Code::kUnsupportedForm, fmt::format("convolution of {} by {}: only 2-D is imported yet",
                                                    to_string(input->type.shape), to_string(weight->type.shape)));
  }
  HTPIPE_TRY(const IntList stride, call.integers("stride", 2, {1, 1}));
  HTPIPE_TRY(const IntList padding, symmetric_padding(call, "padding"));
  HTPIPE_TRY(const IntList dilation, call.integers("dilation", 2, {1, 1}));
  HTPIPE_TRY(const std::int64_t groups, call.integer("groups", 1));
  Attributes attributes{{"stride", stride}, {"pad_amount", padding}, {"dilation", dilation}};
  const Shape& shape = weight->type.shape;
  if (groups > 1 && shape[1] == 1 && groups == input->type.shape[1]) {
    return call.add("DepthWiseConv2d", std::move(attributes), {input, weight, bias});
  }
  attributes.set("group", groups);
  return call.add("Conv2d", std::move(attributes), {input, weight, bias});
}

/// Inference form: mean, variance and epsilon become one scale and one shift per channel.
Out batch_norm(Call& call) {
  HTPIPE_TRY(const bool training, call.flag("training", false));
  if (training) return fail(Code::kUnsupportedForm, "batch_norm in training mode: call model.eval() before the export");
  HTPIPE_TRY(htpipe::Value * input, call.tensor("input"));
  HTPIPE_TRY(const std::vector<float> mean, call.floats("running_mean"));
  HTPIPE_TRY(const std::vector<float> variance, call.floats("running_var"));
  HTPIPE_TRY(const double epsilon, call.real("eps", 1e-5));
  std::vector<float> gamma(mean.size(), 1.0F);
  std::vector<float> beta(mean.size(), 0.0F);
  HTPIPE_TRY(const htpipe::Value* weight, call.optional_tensor("weight"));
  if (weight != nullptr) {
    HTPIPE_TRY(gamma, call.floats("weight"));
  }
  HTPIPE_TRY(const htpipe::Value* bias, call.optional_tensor("bias"));
  if (bias != nullptr) {
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
  HTPIPE_TRY(htpipe::Value * weights, call.constant("scale", channels, scale));
  HTPIPE_TRY(htpipe::Value * biases, call.constant("shift", channels, shift));
  return call.add("Batchnorm", {}, {input, weights, biases});
}

template <const char* kOperation>
Out neuron(Call& call) {
  HTPIPE_TRY(htpipe::Value * input, call.tensor("self"));
  return call.add("ElementWiseNeuron", {{"operation", std::string(kOperation)}}, {input});
}
constexpr char kRelu[] = "relu";
constexpr char kSigmoid[] = "sigmoid";
constexpr char kTanh[] = "tanh";
constexpr char kHardSwish[] = "hard_swish";
constexpr char kHardSigmoid[] = "hard_sigmoid";

Out clamp(Call& call) {
  HTPIPE_TRY(htpipe::Value * input, call.tensor("self"));
  const char* low_name = call.node().input("min_val") != nullptr ? "min_val" : "min";
  const char* high_name = call.node().input("max_val") != nullptr ? "max_val" : "max";
  // hardtanh's own defaults are -1 and 1; clamp and relu6 give their bounds.
  const bool relu6 = call.node().target.find(".relu6.") != std::string::npos;
  HTPIPE_TRY(const double low, call.real(low_name, relu6 ? 0.0 : -1.0));
  HTPIPE_TRY(const double high, call.real(high_name, relu6 ? 6.0 : 1.0));
  return call.add("ElementWiseNeuron",
                  {{"operation", std::string("relu_min_max")},
                   {"min_value", static_cast<float>(low)},
                   {"max_value", static_cast<float>(high)}},
                  {input});
}

Out gelu(Call& call) {
  if (const Argument* form = call.node().input("approximate")) {
    const auto* text = std::get_if<std::string>(form);
    if (text == nullptr || *text != "none") return fail(Code::kUnsupportedForm, "gelu in its tanh form");
  }
  HTPIPE_TRY(htpipe::Value * input, call.tensor("self"));
  return call.add("ElementWiseNeuron", {{"operation", std::string("gelu")}}, {input});
}

/// Tensor op tensor, or tensor op number.
Out binary(Call& call, const char* operation) {
  HTPIPE_TRY(htpipe::Value * a, call.tensor("self"));
  HTPIPE_TRY(const double alpha, call.real("alpha", 1.0));
  if (alpha != 1.0) return fail(Code::kUnsupportedForm, "alpha other than 1");
  htpipe::Value* b = nullptr;
  const Argument* other = call.node().input("other");
  if (other != nullptr && std::holds_alternative<TensorName>(*other)) {
    HTPIPE_TRY(b, call.tensor("other"));
  } else {
    HTPIPE_TRY(const double number, call.real("other"));
    HTPIPE_TRY(b, call.constant("other", {1}, {static_cast<float>(number)}));
  }
  return call.add("ElementWiseBinary", {{"operation", std::string(operation)}}, {a, b});
}
Out add(Call& call) { return binary(call, "add"); }
Out subtract(Call& call) { return binary(call, "subtract"); }
Out multiply(Call& call) { return binary(call, "multiply"); }
Out maximum(Call& call) { return binary(call, "maximum"); }
Out minimum(Call& call) { return binary(call, "minimum"); }

Result<Attributes> pool_attributes(Call& call) {
  HTPIPE_TRY(const IntList size, call.integers("kernel_size", 2));
  HTPIPE_TRY(const IntList stride, call.integers("stride", 2, size));
  HTPIPE_TRY(const IntList padding, symmetric_padding(call, "padding"));
  HTPIPE_TRY(const bool ceil, call.flag("ceil_mode", false));
  return Attributes{{"filter_size", size},
                    {"stride", stride},
                    {"pad_amount", padding},
                    {"rounding_mode", std::string(ceil ? "ceil" : "floor")}};
}

Out max_pool2d(Call& call) {
  HTPIPE_TRY(htpipe::Value * input, call.tensor("self"));
  HTPIPE_TRY(const IntList dilation, call.integers("dilation", 2, {1, 1}));
  if (dilation != IntList{1, 1}) return fail(Code::kUnsupportedForm, "dilated pooling");
  HTPIPE_TRY(Attributes attributes, pool_attributes(call));
  return call.add("PoolMax2d", std::move(attributes), {input});
}

Out avg_pool2d(Call& call) {
  HTPIPE_TRY(htpipe::Value * input, call.tensor("self"));
  if (const Argument* divisor = call.node().input("divisor_override");
      divisor != nullptr && !std::holds_alternative<std::monostate>(*divisor)) {
    return fail(Code::kUnsupportedForm, "divisor_override");
  }
  HTPIPE_TRY(Attributes attributes, pool_attributes(call));
  HTPIPE_TRY(const bool count_padding, call.flag("count_include_pad", true));
  const IntList& pad = std::get<IntList>(*attributes.find("pad_amount"));
  const bool padded = std::any_of(pad.begin(), pad.end(), [](std::int64_t p) { return p != 0; });
  if (padded && count_padding && attributes.text("rounding_mode") == "ceil") {
    return fail(Code::kUnsupportedForm, "count_include_pad together with ceil_mode");
  }
  attributes.set("count_pad_for_edges", count_padding && padded);
  return call.add("PoolAvg2d", std::move(attributes), {input});
}

/// Where the output size divides the input size, the windows are equal and do not overlap.
Out adaptive_avg_pool2d(Call& call) {
  HTPIPE_TRY(htpipe::Value * input, call.tensor("self"));
  HTPIPE_TRY(const IntList size, call.integers("output_size", 2));
  const Shape& shape = input->type.shape;
  if (shape.size() != 4 || size[0] < 1 || size[1] < 1 || shape[2] % size[0] != 0 || shape[3] % size[1] != 0) {
    return fail(Code::kUnsupportedForm,
                fmt::format("adaptive pooling from {} to {}", to_string(shape), to_string(size)));
  }
  const IntList window = {shape[2] / size[0], shape[3] / size[1]};
  return call.add("PoolAvg2d", {{"filter_size", window}, {"stride", window}}, {input});
}

/// Mean over the two spatial axes of an image is a global pool.
Out mean(Call& call) {
  HTPIPE_TRY(htpipe::Value * input, call.tensor("self"));
  HTPIPE_TRY(IntList axes, call.integers("dim", 0));
  HTPIPE_TRY(const bool keep, call.flag("keepdim", false));
  const Shape& shape = input->type.shape;
  for (std::int64_t& axis : axes) axis = axis < 0 ? axis + static_cast<std::int64_t>(shape.size()) : axis;
  std::sort(axes.begin(), axes.end());
  if (shape.size() != 4 || axes != IntList{2, 3}) {
    return fail(Code::kUnsupportedForm, fmt::format("mean of {} over {}", to_string(shape), to_string(axes)));
  }
  const IntList window = {shape[2], shape[3]};
  HTPIPE_TRY(htpipe::Value * pooled,
             call.add("PoolAvg2d", {{"filter_size", window}, {"stride", window}}, {input}, keep ? "" : "pool"));
  if (keep) return pooled;
  return call.add("Reshape", {{"shape", IntList{shape[0], shape[1]}}}, {pooled});
}

Out flatten(Call& call) {
  HTPIPE_TRY(htpipe::Value * input, call.tensor("self"));
  const Shape& shape = input->type.shape;
  const auto rank = static_cast<std::int64_t>(shape.size());
  HTPIPE_TRY(std::int64_t first, call.integer("start_dim", 0));
  HTPIPE_TRY(std::int64_t last, call.integer("end_dim", -1));
  first = first < 0 ? first + rank : first;
  last = last < 0 ? last + rank : last;
  if (first < 0 || last >= rank || first > last) return fail(Code::kUnsupportedForm, "flatten axes are out of range");
  Shape result(shape.begin(), shape.begin() + first);
  std::int64_t product = 1;
  for (std::int64_t axis = first; axis <= last; ++axis) product *= shape[static_cast<std::size_t>(axis)];
  result.push_back(product);
  result.insert(result.end(), shape.begin() + last + 1, shape.end());
  return call.add("Reshape", {{"shape", result}}, {input});
}

Out view(Call& call) {
  HTPIPE_TRY(htpipe::Value * input, call.tensor("self"));
  HTPIPE_TRY(const IntList size, call.integers(call.node().input("shape") != nullptr ? "shape" : "size", 0));
  return call.add("Reshape", {{"shape", size}}, {input});
}

Out permute_axes(Call& call) {
  HTPIPE_TRY(htpipe::Value * input, call.tensor("self"));
  HTPIPE_TRY(IntList order, call.integers("dims", input->type.shape.size()));
  for (std::int64_t& axis : order) axis = axis < 0 ? axis + static_cast<std::int64_t>(order.size()) : axis;
  return call.add("Transpose", {{"perm", order}}, {input});
}

Out linear(Call& call) {
  HTPIPE_TRY(htpipe::Value * input, call.tensor("input"));
  HTPIPE_TRY(htpipe::Value * weight, call.tensor("weight"));
  HTPIPE_TRY(htpipe::Value * bias, call.optional_tensor("bias"));
  return call.add("FullyConnected", {{"keep_dims", input->type.shape.size() > 2}}, {input, weight, bias});
}

Out cat(Call& call) {
  const Argument* argument = call.node().input("tensors");
  const auto* names = argument != nullptr ? std::get_if<TensorNames>(argument) : nullptr;
  if (names == nullptr || names->names.empty()) return fail(Code::kUnsupportedForm, "cat without tensors");
  std::vector<htpipe::Value*> operands;
  for (const std::string& name : names->names) {
    HTPIPE_TRY(htpipe::Value * value, call.lookup(name));
    operands.push_back(value);
  }
  HTPIPE_TRY(std::int64_t axis, call.integer("dim", 0));
  if (axis < 0) axis += static_cast<std::int64_t>(operands.front()->type.shape.size());
  return call.add("Concat", {{"axis", axis}}, std::move(operands));
}

/// A change of float type: the float graph computes in float32, and half-precision weights are widened already.
Out to_dtype(Call& call) {
  const Argument* argument = call.node().input("dtype");
  const auto* dtype = argument != nullptr ? std::get_if<DType>(argument) : nullptr;
  HTPIPE_TRY(htpipe::Value * input, call.tensor("self"));
  if (dtype == nullptr || !is_float(*dtype) || !is_float(input->type.dtype)) {
    return fail(Code::kUnsupportedForm, "a cast from or to integers");
  }
  return input;
}

/// Checks of the exporter without a result.
Out no_result(Call&) { return nullptr; }

/// Operators that change nothing at inference.
Out identity(Call& call) { return call.tensor(call.node().input("self") != nullptr ? "self" : "input"); }

Out dropout(Call& call) {
  HTPIPE_TRY(const bool train, call.flag("train", false));
  if (train) return fail(Code::kUnsupportedForm, "dropout in training mode: call model.eval() before the export");
  return call.tensor("input");
}

const std::map<std::string_view, Mapper>& table() {
  static const std::map<std::string_view, Mapper> mappers = {
      {"_assert_tensor_metadata.default", no_result},
      {"adaptive_avg_pool2d.default", adaptive_avg_pool2d},
      {"add.Tensor", add},
      {"add_.Tensor", add},
      {"alias.default", identity},
      {"avg_pool2d.default", avg_pool2d},
      {"batch_norm.default", batch_norm},
      {"cat.default", cat},
      {"clamp.default", clamp},
      {"clone.default", identity},
      {"contiguous.default", identity},
      {"conv2d.default", conv2d},
      {"convolution.default", conv2d},
      {"detach.default", identity},
      {"detach_.default", identity},
      {"dropout.default", dropout},
      {"flatten.using_ints", flatten},
      {"gelu.default", gelu},
      {"hardsigmoid.default", neuron<kHardSigmoid>},
      {"hardswish.default", neuron<kHardSwish>},
      {"hardswish_.default", neuron<kHardSwish>},
      {"hardtanh.default", clamp},
      {"hardtanh_.default", clamp},
      {"lift_fresh_copy.default", identity},
      {"linear.default", linear},
      {"max_pool2d.default", max_pool2d},
      {"maximum.default", maximum},
      {"mean.dim", mean},
      {"minimum.default", minimum},
      {"mul.Tensor", multiply},
      {"permute.default", permute_axes},
      {"relu.default", neuron<kRelu>},
      {"relu6.default", clamp},
      {"relu_.default", neuron<kRelu>},
      {"reshape.default", view},
      {"sigmoid.default", neuron<kSigmoid>},
      {"sub.Tensor", subtract},
      {"tanh.default", neuron<kTanh>},
      {"to.dtype", to_dtype},
      {"view.default", view},
  };
  return mappers;
}

}  // namespace

Mapper find_mapper(std::string_view target) {
  constexpr std::string_view kPrefix = "torch.ops.aten.";
  if (target.substr(0, kPrefix.size()) != kPrefix) return nullptr;
  const auto at = table().find(target.substr(kPrefix.size()));
  return at == table().end() ? nullptr : at->second;
}

}  // namespace htpipe::pt2
