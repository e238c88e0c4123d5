// Operators on quantised values: their operands become real numbers, and their result becomes quantised again. Products
// of plain integers stay integers.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"
#include "import/onnx/onnx_quantize.h"

namespace htpipe::onnx_import::map {
namespace {

/// Integers below this are exact in float32.
constexpr std::int64_t kExact = std::int64_t{1} << 24;

/// Scale and zero point at the inputs `scale` and `scale` + 1.
Result<Grid> grid_at(Call& call, std::size_t scale, std::int64_t axis = 1) {
  Grid grid;
  HTPIPE_TRY(grid.scale, call.input(scale));
  grid.zero_point = call.optional_input(scale + 1);
  grid.axis = axis;
  return grid;
}

Result<Value*> real_input(Call& call, std::size_t index, const Grid& grid, std::string_view suffix) {
  HTPIPE_TRY(Value * value, call.input(index));
  return dequantized(call, value, grid, 0, DType::kF32, suffix);
}

/// Quantises a result like the zero point says; without one it is unsigned 8-bit.
Result<Values> result_of(Call& call, Value* real, const Grid& grid) {
  const DType to = grid.zero_point != nullptr ? grid.zero_point->type.dtype : DType::kU8;
  return one(quantized(call, real, grid, to, 0));
}

using Unary = Result<Value*> (*)(Call&, Value*);

Result<Values> unary(Call& call, Unary function) {
  HTPIPE_TRY(const Grid from, grid_at(call, 1));
  HTPIPE_TRY(const Grid to, grid_at(call, 3));
  HTPIPE_TRY(Value * input, real_input(call, 0, from, "real"));
  HTPIPE_TRY(Value * result, function(call, input));
  return result_of(call, result, to);
}

Result<Values> binary(Call& call, std::string_view operation) {
  HTPIPE_TRY(const Grid left, grid_at(call, 1));
  HTPIPE_TRY(const Grid right, grid_at(call, 4));
  HTPIPE_TRY(const Grid to, grid_at(call, 6));
  HTPIPE_TRY(Value * a, real_input(call, 0, left, "a"));
  HTPIPE_TRY(Value * b, real_input(call, 3, right, "b"));
  HTPIPE_TRY(Value * result, call.binary(operation, a, b, "result"));
  return result_of(call, result, to);
}

/// An integer operand minus its zero point, as i32. `axis` is the one that several zero points count along.
Result<Value*> centred(Call& call, std::size_t index, std::size_t zero_index, std::int64_t axis,
                       std::string_view suffix) {
  HTPIPE_TRY(Value * value, call.input(index));
  HTPIPE_TRY(Value * whole, call.cast(value, DType::kI32, fmt::format("{}_i32", suffix)));
  Value* zero = call.optional_input(zero_index);
  if (zero == nullptr) return whole;
  const std::string name = fmt::format("{}_zero", suffix);
  if (zero->type.count() == 1) {
    HTPIPE_TRY(zero, call.reshape(zero, {}, name));
  } else if (zero->type.shape.size() == 1) {
    HTPIPE_TRY(const std::int64_t at, normal_axis(axis, value->type.shape.size()));
    Shape along(value->type.shape.size(), 1);
    along[static_cast<std::size_t>(at)] = zero->type.count();
    HTPIPE_TRY(zero, call.reshape(zero, along, name));
  }
  HTPIPE_TRY(zero, call.cast(zero, DType::kI32, fmt::format("{}_i32", name)));
  return call.binary("subtract", whole, zero, suffix);
}

}  // namespace

Result<Values> mat_mul_integer(Call& call) {
  HTPIPE_TRY(Value * a, centred(call, 0, 2, -2, "a"));
  HTPIPE_TRY(Value * b, centred(call, 1, 3, -1, "b"));
  Call inner = call.with_inputs({a, b}, "");
  return matmul(inner);
}

Result<Values> conv_integer(Call& call) {
  HTPIPE_TRY(Value * input, centred(call, 0, 2, 0, "x"));
  HTPIPE_TRY(Value * weight, centred(call, 1, 3, 0, "w"));
  const Shape& shape = weight->type.shape;
  const std::int64_t terms = shape.empty() ? 0 : weight->type.count() / std::max<std::int64_t>(shape[0], 1);
  if (terms * 255 * 255 >= kExact) {
    call.warn("sums of integers are computed in float32: large ones lose their last bits");
  }
  HTPIPE_TRY(input, call.cast(input, DType::kF32, "x_f32"));
  HTPIPE_TRY(weight, call.cast(weight, DType::kF32, "w_f32"));
  Call inner = call.with_inputs({input, weight}, "f32");
  HTPIPE_TRY(const Values result, conv(inner));
  HTPIPE_TRY(Value * whole, call.unary("round", result.front(), "whole"));
  return one(call.cast(whole, DType::kI32));
}

Result<Values> qlinear_mat_mul(Call& call) {
  HTPIPE_TRY(const Grid left, grid_at(call, 1, -2));
  HTPIPE_TRY(const Grid right, grid_at(call, 4, -1));
  HTPIPE_TRY(const Grid to, grid_at(call, 6));
  HTPIPE_TRY(Value * a, real_input(call, 0, left, "a"));
  HTPIPE_TRY(Value * b, real_input(call, 3, right, "b"));
  Call inner = call.with_inputs({a, b}, "product");
  HTPIPE_TRY(const Values product, matmul(inner));
  return result_of(call, product.front(), to);
}

Result<Values> qlinear_conv(Call& call) {
  HTPIPE_TRY(const Grid input_grid, grid_at(call, 1));
  HTPIPE_TRY(const Grid weight_grid, grid_at(call, 4, 0));
  HTPIPE_TRY(const Grid to, grid_at(call, 6));
  HTPIPE_TRY(Value * input, real_input(call, 0, input_grid, "x"));
  HTPIPE_TRY(Value * weight, real_input(call, 3, weight_grid, "w"));
  Values operands = {input, weight};
  if (Value* bias = call.optional_input(8)) {
    // Biases are 32-bit integers in units of the input's scale times the weights'.
    Grid grid;
    grid.axis = 0;
    HTPIPE_TRY(Value * weight_scale, call.cast(weight_grid.scale, DType::kF32, "w_scale"));
    HTPIPE_TRY(Value * input_scale, call.cast(input_grid.scale, DType::kF32, "x_scale"));
    HTPIPE_TRY(input_scale, call.reshape(input_scale, {}, "x_scale_scalar"));
    HTPIPE_TRY(grid.scale, call.binary("multiply", weight_scale, input_scale, "bias_scale"));
    HTPIPE_TRY(bias, dequantized(call, bias, grid, 0, DType::kF32, "bias"));
    operands.push_back(bias);
  }
  Call inner = call.with_inputs(std::move(operands), "real");
  HTPIPE_TRY(const Values result, conv(inner));
  return result_of(call, result.front(), to);
}

Result<Values> qlinear_add(Call& call) { return binary(call, "add"); }
Result<Values> qlinear_mul(Call& call) { return binary(call, "multiply"); }

Result<Values> qlinear_sigmoid(Call& call) {
  return unary(call, [](Call& self, Value* input) { return self.neuron("sigmoid", input, "result"); });
}

Result<Values> qlinear_leaky_relu(Call& call) {
  return unary(call, [](Call& self, Value* input) -> Result<Value*> {
    Call inner = self.with_inputs({input}, "result");
    HTPIPE_TRY(const Values result, leaky_relu(inner));
    return result.front();
  });
}

Result<Values> qlinear_global_average_pool(Call& call) {
  return unary(call, [](Call& self, Value* input) -> Result<Value*> {
    HTPIPE_TRY(const std::int64_t last, self.integer("channels_last", 0));
    const std::int64_t rank = rank_of(input);
    if (rank < 3) return fail(Code::kOnnxInvalid, "a global pool needs rank 3 or more");
    return reduce(self, "ReduceMean", input, last != 0 ? count_up(1, rank - 1) : count_up(2, rank), true, "result");
  });
}

Result<Values> qlinear_concat(Call& call) {
  HTPIPE_TRY(const Grid to, grid_at(call, 0));
  Values parts;
  for (std::size_t i = 2; i + 2 < call.input_count() + 1; i += 3) {
    HTPIPE_TRY(const Grid from, grid_at(call, i + 1));
    HTPIPE_TRY(Value * part, real_input(call, i, from, fmt::format("part_{}", parts.size())));
    parts.push_back(part);
  }
  if (parts.empty()) return fail(Code::kOnnxInvalid, "QLinearConcat of nothing");
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", std::nullopt, parts.front()->type.shape.size()));
  HTPIPE_TRY(Value * result, onnx_import::concat(call, parts, axis, "result"));
  return result_of(call, result, to);
}

}  // namespace htpipe::onnx_import::map
