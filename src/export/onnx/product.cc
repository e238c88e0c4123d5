// Products of matrices.
#include <numeric>
#include <utility>

#include "export/onnx/arithmetic.h"
#include "export/onnx/operators.h"

namespace htpipe::onnx_export {
namespace {

/// The last two axes swapped.
IntList swapped(std::size_t rank) {
  IntList perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[rank - 1], perm[rank - 2]);
  return perm;
}

}  // namespace

namespace write {

Status mat_mul(NodeWriter& out) {
  const DType wide = wide_type(out.dtype());
  const auto operand = [&](std::size_t i, const char* flag) {
    if (wide == out.dtype() && out.attributes().flag(flag)) return out.permuted(i, swapped(out.shape(i).size()));
    std::string name = out.cast(i, wide);
    if (!out.attributes().flag(flag)) return name;
    return out.inner("Transpose", {name}, "permuted", {{"perm", swapped(out.shape(i).size())}});
  };
  out.computed_in(wide == out.dtype() ? out.result_dtype() : wide);
  const std::string a = operand(0, "transpose_in0");
  out.emit("MatMul", {a, operand(1, "transpose_in1")});
  return {};
}

Status fully_connected(NodeWriter& out) {
  out.activation_behind();
  const Shape& weight = out.shape(1);
  const bool keep_dims = out.attributes().flag("keep_dims");
  const std::string bias = out.has(2) ? out.reshaped(2, {weight[0]}) : std::string();
  if (out.rank() == 2 || !keep_dims) {
    const std::string input = out.rank() == 2 ? out.in(0) : out.reshaped(0, {out.result_shape()[0], weight[1]});
    out.emit("Gemm", {input, out.in(1), bias}, {{"transB", std::int64_t{1}}});
    return {};
  }
  if (!bias.empty()) {
    const std::string product = out.inner("MatMul", {out.in(0), out.permuted(1, {1, 0})}, "product");
    out.emit("Add", {product, bias});
  } else {
    out.emit("MatMul", {out.in(0), out.permuted(1, {1, 0})});
  }
  return {};
}

}  // namespace write
}  // namespace htpipe::onnx_export
