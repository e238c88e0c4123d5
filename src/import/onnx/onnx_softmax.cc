// Softmax and its kin, Dropout.
#include <fmt/core.h>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// Calls `add(value, axis, suffix)`. Before opset 13 the axes from `axis` on count as one.
template <typename Add>
Result<Values> along_axis(Call& call, Add add) {
  HTPIPE_TRY(Value * input, call.input(0));
  const std::int64_t rank = rank_of(input);
  const bool joins = call.opset() < 13;
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", joins && rank > 1 ? 1 : -1, input->type.shape.size()));
  if (!joins || axis == rank - 1) return one(add(input, axis, ""));
  const Shape shape = input->type.shape;
  HTPIPE_TRY(Value * matrix,
             call.reshape(input, {count_between(shape, 0, axis), count_between(shape, axis, rank)}, "matrix"));
  HTPIPE_TRY(Value * result, add(matrix, 1, "rows"));
  return one(call.reshape(result, shape));
}

}  // namespace

Result<Values> softmax(Call& call) {
  return along_axis(call, [&](Value* value, std::int64_t axis, std::string_view suffix) {
    return call.add("Softmax", {{"axis", axis}}, {value}, suffix);
  });
}

Result<Values> log_softmax(Call& call) {
  return along_axis(call, [&](Value* value, std::int64_t axis, std::string_view suffix) {
    return call.add("LogSoftmax", {{"axis", axis}}, {value}, suffix);
  });
}

Result<Values> hardmax(Call& call) {
  return along_axis(call, [&](Value* value, std::int64_t axis, std::string_view suffix) -> Result<Value*> {
    HTPIPE_TRY(Value * where, call.add("Argmax", {{"axis", axis}, {"keep_dims", false}}, {value}, "argmax"));
    const Attributes attributes = {{"depth", value->type.shape[static_cast<std::size_t>(axis)]},
                                   {"axis", axis},
                                   {"to", std::string(name_of(value->type.dtype))}};
    return call.add("OneHot", attributes, {where}, suffix);
  });
}

Result<Values> dropout(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  if (call.has(2)) {
    HTPIPE_TRY(const double training, number_input(call, 2));
    double ratio = 0.5;
    if (training != 0.0 && call.has(1)) {
      HTPIPE_TRY(ratio, number_input(call, 1));
    }
    if (training != 0.0 && ratio != 0.0) return fail(Code::kUnsupportedForm, "Dropout that drops: it is random");
  }
  if (!call.wants(1)) return Values{input};
  // Before opset 10 the mask has the type of the data.
  const DType dtype = call.opset() < 10 ? input->type.dtype : DType::kBool;
  return Values{input, call.constant("mask", filled({dtype, input->type.shape, std::nullopt}, 1))};
}

}  // namespace htpipe::onnx_import::map
