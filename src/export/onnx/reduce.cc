// Reductions over axes.
#include <fmt/core.h>

#include "export/onnx/arithmetic.h"
#include "export/onnx/operators.h"

namespace htpipe::onnx_export {
namespace {

/// `since`: the opset in which the axes became an operand.
Status reduce(NodeWriter& out, std::string_view op_type, std::int64_t since) {
  const IntList& axes = out.attributes().integers("axes");
  const bool keep_dims = out.attributes().flag("keep_dims");
  const DType wide = wide_type(out.dtype());
  out.computed_in(wide == out.dtype() ? out.result_dtype() : wide);
  std::string input = out.cast(0, wide);
  const bool squares = op_type == "ReduceSumSquare";
  if (axes.empty()) {  // ONNX would take all of them
    out.emit(squares ? "Mul" : "Identity", squares ? Names{input, input} : Names{input});
    return {};
  }
  if (squares && wide == DType::kI64) {
    input = out.inner("Mul", {input, input}, "squares");
    op_type = "ReduceSum";
    since = 13;
  }
  Settings settings;
  const Names inputs = out.reduction(input, axes, keep_dims, since, settings);
  out.emit(op_type, inputs, settings);
  return {};
}

}  // namespace

namespace write {

Status reduce_max(NodeWriter& out) { return reduce(out, "ReduceMax", 18); }
Status reduce_min(NodeWriter& out) { return reduce(out, "ReduceMin", 18); }
Status reduce_prod(NodeWriter& out) { return reduce(out, "ReduceProd", 18); }
Status reduce_sum(NodeWriter& out) { return reduce(out, "ReduceSum", 13); }
Status reduce_sum_square(NodeWriter& out) { return reduce(out, "ReduceSumSquare", 18); }

Status reduce_mean(NodeWriter& out) {
  const IntList& axes = out.attributes().integers("axes");
  if (is_float(out.dtype()) || axes.empty()) return reduce(out, "ReduceMean", 18);
  // Integers: the sum, divided as integers are.
  std::int64_t terms = 1;
  for (const std::int64_t axis : axes) terms *= out.shape()[static_cast<std::size_t>(axis)];
  out.computed_in(DType::kI64);
  Settings settings;
  const Names inputs = out.reduction(out.cast(0, DType::kI64), axes, out.attributes().flag("keep_dims"), 13, settings);
  const std::string sum = out.inner("ReduceSum", inputs, "sum", settings);
  out.emit("Div", {sum, out.scalar(static_cast<double>(terms), DType::kI64)});
  return {};
}

}  // namespace write
}  // namespace htpipe::onnx_export
