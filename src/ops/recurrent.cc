#include "ops/recurrent.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "ops/normalise.h"

namespace htpipe::ops {
namespace {

constexpr std::int64_t kRowsTogether = 256;

}  // namespace

std::int64_t RecurrentForm::chunk() const {
  return std::clamp<std::int64_t>(kRowsTogether / std::max<std::int64_t>(batch, 1), 1,
                                  std::max<std::int64_t>(steps, 1));
}

double RecurrentForm::clipped(double x) const {
  const auto bound = static_cast<double>(clip);
  return clip > 0.0F ? std::clamp(x, -bound, bound) : x;
}
double RecurrentForm::sigmoid(double x) const { return 1 / (1 + std::exp(-clipped(x))); }
double RecurrentForm::tanh(double x) const { return std::tanh(clipped(x)); }

Status check_operand(const NodeView& node, std::size_t index, const Shape& shape) {
  if (!node.has(index)) return {};
  HTPIPE_CHECK_OK(check_real(node, index));
  if (node.type(index).shape == shape) return {};
  return fail(Code::kShapeMismatch,
              fmt::format("operand {} is {}, needs {}", index, to_string(node.type(index).shape), to_string(shape)));
}

Result<RecurrentForm> recurrent_form(const NodeView& node, std::int64_t gates, std::size_t lengths) {
  const Shape& input = node.type(0).shape;
  const Shape& recurrent = node.type(2).shape;
  if (input.size() != 3 || recurrent.size() != 2 || recurrent[1] < 1 || input[2] < 1) {
    return fail(Code::kShapeMismatch, fmt::format("input {} and recurrent weights {}; needs [steps, batch, input] and "
                                                  "[gates * hidden, hidden]",
                                                  to_string(input), to_string(recurrent)));
  }
  RecurrentForm form;
  form.steps = input[0];
  form.batch = input[1];
  form.input = input[2];
  form.hidden = recurrent[1];
  form.gates = gates;
  HTPIPE_CHECK_OK(check_real(node, 0));
  HTPIPE_CHECK_OK(check_operand(node, 1, {form.width(), form.input}));
  HTPIPE_CHECK_OK(check_operand(node, 2, {form.width(), form.hidden}));
  HTPIPE_CHECK_OK(check_operand(node, 3, {2 * form.width()}));
  HTPIPE_CHECK_OK(check_operand(node, 4, {form.batch, form.hidden}));
  form.has_bias = node.has(3);
  form.has_initial_h = node.has(4);
  const std::string& direction = node.attributes.text("direction");
  if (direction != "forward" && direction != "reverse") {
    return fail(Code::kUnsupportedForm, fmt::format("no direction \"{}\"", direction));
  }
  form.reverse = direction == "reverse";
  form.clip = node.attributes.real("clip");
  if (!(form.clip >= 0.0F)) return fail(Code::kUnsupportedForm, fmt::format("clip {}", form.clip));
  if (node.has(lengths)) {
    form.lengths = lengths;
    if (!is_integer(node.type(lengths).dtype) || node.type(lengths).encoding) {
      return fail(Code::kDtypeMismatch, fmt::format("lengths are {}", name_of(node.type(lengths).dtype)));
    }
    if (node.type(lengths).shape != Shape{form.batch}) {
      return fail(Code::kShapeMismatch,
                  fmt::format("lengths {} of {} sequences", to_string(node.type(lengths).shape), form.batch));
    }
  }
  return form;
}

AttributeSpec direction_attribute() { return {"direction", std::string("forward"), false, "forward or reverse"}; }
AttributeSpec clip_attribute() { return {"clip", 0.0F, false, "bound of what goes into activations; 0 = none"}; }

RowWeights::RowWeights(const NodeView& node, std::size_t operand, std::int64_t first, std::int64_t count)
    : operand_(operand), first_(first), count_(count), k_(node.type(operand).shape[1]) {
  const Tensor* weights = node.constants[operand];
  if (weights != nullptr) packed_ = pack(weights->data<float>().data());
}

std::shared_ptr<const kernels::PackedF32> RowWeights::pack(const float* weights) const {
  std::vector<float> columns(static_cast<std::size_t>(k_ * count_));
  for (std::int64_t row = 0; row < count_; ++row) {
    for (std::int64_t i = 0; i < k_; ++i)
      columns[static_cast<std::size_t>(i * count_ + row)] = weights[(first_ + row) * k_ + i];
  }
  return std::make_shared<const kernels::PackedF32>(kernels::pack_f32(columns.data(), k_, count_));
}

RowWeights::Product::Product(const RowWeights& weights, const KernelCall& call)
    : packed_(weights.packed_ ? weights.packed_ : weights.pack(call.in<float>(weights.operand_))) {}

std::size_t RecurrentRun::scratch_bytes(const RecurrentForm& form) {
  return static_cast<std::size_t>(form.width() * (form.chunk() * form.batch + 1)) * sizeof(float);
}

RecurrentRun::RecurrentRun(const RecurrentForm& form, const KernelCall& call, std::int64_t bias_of_state)
    : form_(form),
      call_(call),
      state_(call.out<float>(1)),
      x_(reinterpret_cast<float*>(call.scratch)),
      bias_(x_ + form.width() * form.chunk() * form.batch) {
  const std::int64_t count = form.batch * form.hidden;
  if (form.has_initial_h) {
    std::copy_n(call.in<float>(4), count, state_);
  } else {
    std::fill_n(state_, count, 0.0F);
  }
  std::fill_n(bias_, form.width(), 0.0F);
  if (!form.has_bias) return;
  const float* bias = call.in<float>(3);
  for (std::int64_t i = 0; i < form.width(); ++i) {
    bias_[i] = bias[i];
    if (i < bias_of_state * form.hidden) bias_[i] += bias[form.width() + i];
  }
}

bool RecurrentRun::active(std::int64_t step, std::int64_t image) const {
  return form_.lengths == 0 || step < call_.in<std::int64_t>(form_.lengths)[image];
}

void RecurrentRun::share_of_input(const RowWeights::Product& product, std::int64_t first, std::int64_t count) {
  const std::int64_t rows = count * form_.batch;
  product.run(call_.in<float>(0) + first * form_.batch * form_.input, x_, rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    float* line = x_ + row * form_.width();
    for (std::int64_t i = 0; i < form_.width(); ++i) line[i] += bias_[i];
  }
}

void RecurrentRun::keep(std::int64_t step) {
  float* out = call_.out<float>(0) + step * form_.batch * form_.hidden;
  for (std::int64_t image = 0; image < form_.batch; ++image, out += form_.hidden) {
    if (active(step, image)) {
      std::copy_n(state_ + image * form_.hidden, form_.hidden, out);
    } else {
      std::fill_n(out, form_.hidden, 0.0F);
    }
  }
}

}  // namespace htpipe::ops
