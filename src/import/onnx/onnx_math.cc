// Elementwise arithmetic.
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

Result<Values> one(Result<Value*> value) {
  HTPIPE_TRY(Value * result, std::move(value));
  return Values{result};
}

Result<Values> binary(Call& call, std::string_view operation) {
  HTPIPE_TRY(Value * a, call.input(0));
  HTPIPE_TRY(Value * b, call.input(1));
  return one(call.binary(operation, a, b));
}

}  // namespace

Result<Values> add(Call& call) { return binary(call, "add"); }

Result<Values> relu(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  return one(call.neuron("relu", input));
}

}  // namespace htpipe::onnx_import::map
