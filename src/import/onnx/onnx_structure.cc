// Operators that stand for structure: constants, identities, branches.
#include <fmt/core.h>

#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {

Result<Values> constant(Call& call) {
  if (call.has_attribute("value")) {
    HTPIPE_TRY(Tensor tensor, call.tensor_attribute("value"));
    Value* value = call.constant("", std::move(tensor));
    call.set_bits(value, narrow_bits(call.attribute("value")->t().data_type()));
    return Values{value};
  }
  if (call.has_attribute("value_float")) {
    HTPIPE_TRY(const float value, call.real("value_float"));
    return Values{call.floats("", {}, {value})};
  }
  if (call.has_attribute("value_floats")) {
    HTPIPE_TRY(const std::vector<float> values, call.reals("value_floats"));
    return Values{call.floats("", {static_cast<std::int64_t>(values.size())}, values)};
  }
  if (call.has_attribute("value_int")) {
    HTPIPE_TRY(const std::int64_t value, call.integer("value_int"));
    return Values{call.integers("", Shape{}, std::vector<std::int64_t>{value})};
  }
  if (call.has_attribute("value_ints")) {
    HTPIPE_TRY(const std::vector<std::int64_t> values, call.ints("value_ints"));
    return Values{call.integers("", Shape{static_cast<std::int64_t>(values.size())}, values)};
  }
  return fail(Code::kUnsupportedForm, "a constant that is no tensor of numbers");
}

Result<Values> identity(Call& call) {
  HTPIPE_TRY(Value * value, call.input(0));
  return Values{value};
}

Result<Values> if_(Call& call) {
  HTPIPE_TRY(const Tensor condition, call.constant_input(0));
  if (condition.count() != 1) return fail(Code::kOnnxInvalid, "the condition of an If is not one element");
  const bool chosen = condition.real(0) != 0.0;
  return call.subgraph(chosen ? "then_branch" : "else_branch", {}, call.name());
}

}  // namespace htpipe::onnx_import::map
