// Matrix products: MatMul, Gemm and their fused forms of com.microsoft.
#include <fmt/core.h>

#include "import/onnx/onnx_fused.h"
#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// Larger matrices are not transposed here: the weights of a language model stay in the mapped file.
constexpr std::size_t kMaxTransposedBytes = std::size_t{4} << 20;

/// Whether `value` can be the weights of a FullyConnected; `moved` tells that it must be transposed for that.
bool is_weight(const Value* value, bool moved) {
  return value->is_constant() && value->type.shape.size() == 2 && value->type.count() > 0 &&
         is_float(value->type.dtype) && !value->type.encoding &&
         (!moved || value->type.size_bytes() <= kMaxTransposedBytes);
}

/// numpy's matmul: vectors are a row on the left and a column on the right, and lose that axis again. Constant matrices
/// on the right become the weights of a FullyConnected, which has scales per channel.
Result<Value*> product(Call& call, Value* a, Value* b, bool transpose_a, bool transpose_b, std::string_view suffix) {
  if (a->type.shape.empty() || b->type.shape.empty()) return fail(Code::kShapeMismatch, "MatMul of a scalar");
  Shape left = a->type.shape;
  Shape right = b->type.shape;
  const bool row = left.size() == 1;
  const bool column = right.size() == 1;
  if (row) left.insert(left.begin(), 1);
  if (column) right.push_back(1);
  HTPIPE_TRY(a, call.reshape(a, left, "row"));
  HTPIPE_TRY(b, call.reshape(b, right, "column"));
  const bool squeezed = row || column;
  const std::string name = squeezed ? "product" : std::string(suffix);
  Value* result = nullptr;
  if (is_weight(b, !transpose_b || column) && !(transpose_a && !row)) {
    Value* weight = transpose_b && !column ? b : call.constant("weight", transpose(b->constant, {1, 0}));
    HTPIPE_TRY(result, linear(call, a, weight, nullptr, name));
  } else {
    HTPIPE_TRY(result, mat_mul(call, a, b, transpose_a && !row, transpose_b && !column, name));
  }
  if (!squeezed) return result;
  Shape shape = result->type.shape;
  if (column) shape.pop_back();
  if (row) shape.erase(shape.end() - (column ? 1 : 2));
  return call.reshape(result, shape, suffix);
}

/// `value` times a number; itself for 1.
Result<Value*> scaled(Call& call, Value* value, float factor, std::string_view suffix) {
  if (factor == 1.0F) return value;
  return call.binary("multiply", value, static_cast<double>(factor), suffix);
}

/// [n] for a C that is the same in each row of the [m, n] result and can be a bias; null otherwise.
Result<Value*> bias_of(Call& call, Value* c, std::int64_t n) {
  const Shape& shape = c->type.shape;
  const bool one_row = shape.size() < 2 || shape[shape.size() - 2] == 1;
  if (!c->is_constant() || !one_row || shape.size() > 2) return nullptr;
  const Shape row = {c->type.count()};
  HTPIPE_TRY(Value * flat, call.reshape(c, row, "bias_row"));
  return call.expand(flat, {n}, "bias");
}

Result<Value*> general_product(Call& call, std::string_view suffix) {
  HTPIPE_TRY(Value * a, call.input(0));
  HTPIPE_TRY(Value * b, call.input(1));
  HTPIPE_TRY(const float alpha, call.real("alpha", 1.0F));
  HTPIPE_TRY(const float beta, call.real("beta", 1.0F));
  HTPIPE_TRY(const std::int64_t transpose_a, call.integer("transA", 0));
  HTPIPE_TRY(const std::int64_t transpose_b, call.integer("transB", 0));
  if (rank_of(a) != 2 || rank_of(b) != 2) return fail(Code::kShapeMismatch, "Gemm of something that is no matrix");
  Value* c = call.optional_input(2);
  if (c != nullptr && beta == 0.0F) c = nullptr;
  if (c != nullptr) {
    HTPIPE_TRY(c, scaled(call, c, beta, "beta"));
  }
  if (is_weight(b, transpose_b == 0)) {
    if (transpose_a != 0) {
      HTPIPE_TRY(a, call.transpose(a, {1, 0}, "transposed"));
    }
    Value* weight = transpose_b != 0 ? b : call.constant("weight", transpose(b->constant, {1, 0}));
    HTPIPE_TRY(weight, scaled(call, weight, alpha, "alpha"));
    Value* bias = nullptr;
    if (c != nullptr) {
      HTPIPE_TRY(bias, bias_of(call, c, weight->type.shape[0]));
    }
    const bool adds = c != nullptr && bias == nullptr;
    HTPIPE_TRY(Value * result, linear(call, a, weight, bias, adds ? "product" : suffix));
    return adds ? call.binary("add", result, c, suffix) : Result<Value*>(result);
  }
  const std::string_view product_name = c != nullptr || alpha != 1.0F ? "product" : suffix;
  HTPIPE_TRY(Value * result, mat_mul(call, a, b, transpose_a != 0, transpose_b != 0, product_name));
  HTPIPE_TRY(result, scaled(call, result, alpha, c != nullptr ? "alpha" : suffix));
  return c != nullptr ? call.binary("add", result, c, suffix) : Result<Value*>(result);
}

}  // namespace

Result<Values> matmul(Call& call) {
  HTPIPE_TRY(Value * a, call.input(0));
  HTPIPE_TRY(Value * b, call.input(1));
  return one(product(call, a, b, false, false, ""));
}

Result<Values> gemm(Call& call) { return one(general_product(call, "")); }

Result<Values> fused_matmul(Call& call) {
  HTPIPE_TRY(Value * a, call.input(0));
  HTPIPE_TRY(Value * b, call.input(1));
  HTPIPE_TRY(const float alpha, call.real("alpha", 1.0F));
  HTPIPE_TRY(const std::int64_t transpose_a, call.integer("transA", 0));
  HTPIPE_TRY(const std::int64_t transpose_b, call.integer("transB", 0));
  HTPIPE_TRY(const std::int64_t batch_a, call.integer("transBatchA", 0));
  HTPIPE_TRY(const std::int64_t batch_b, call.integer("transBatchB", 0));
  if (batch_a != 0 || batch_b != 0) return fail(Code::kUnsupportedForm, "FusedMatMul that moves batch axes");
  HTPIPE_TRY(Value * result, product(call, a, b, transpose_a != 0, transpose_b != 0, alpha == 1.0F ? "" : "product"));
  return one(scaled(call, result, alpha, ""));
}

Result<Values> fused_gemm(Call& call) {
  HTPIPE_TRY(const std::string activation, call.text("activation", ""));
  HTPIPE_TRY(Value * result, general_product(call, activation.empty() ? "" : "gemm"));
  std::vector<float> parameters;
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    if (!call.has_attribute(name)) continue;
    HTPIPE_TRY(const float value, call.real(name));
    parameters.push_back(value);
  }
  return one(fused_activation(call, result, activation, parameters));
}

}  // namespace htpipe::onnx_import::map
