// Elementwise operators with one operand.
#include <fmt/core.h>

#include <map>
#include <numbers>

#include "export/onnx/arithmetic.h"
#include "export/onnx/operators.h"

namespace htpipe::onnx_export {
namespace {

const std::map<std::string_view, std::string_view>& plain_names() {
  static const std::map<std::string_view, std::string_view> names = {
      {"abs", "Abs"},     {"acos", "Acos"}, {"acosh", "Acosh"}, {"asin", "Asin"},
      {"asinh", "Asinh"}, {"atan", "Atan"}, {"atanh", "Atanh"}, {"ceil", "Ceil"},
      {"cos", "Cos"},     {"cosh", "Cosh"}, {"erf", "Erf"},     {"exp", "Exp"},
      {"floor", "Floor"}, {"log", "Log"},   {"neg", "Neg"},     {"reciprocal", "Reciprocal"},
      {"round", "Round"}, {"sign", "Sign"}, {"sin", "Sin"},     {"sinh", "Sinh"},
      {"sqrt", "Sqrt"},   {"tan", "Tan"}};
  return names;
}

Status bit_not(NodeWriter& out) {
  const DType dtype = out.dtype();
  if (out.opset() >= 18) {
    out.emit("BitwiseNot", {out.in(0)});
    return {};
  }
  if (dtype == DType::kU64) return out.refuse("bit_not of u64 needs opset 18");
  // -1 - x, in a type that holds both.
  const DType wide = wide_type(dtype);
  out.computed_in(wide);
  out.emit("Sub", {out.scalar(-1, wide), out.cast(0, wide)});
  return {};
}

/// 0.5 * x * (1 + curve)
void half_of(NodeWriter& out, const std::string& x, const std::string& curve) {
  const std::string raised = out.inner("Add", {curve, out.scalar(1, out.dtype())}, "raised");
  const std::string product = out.inner("Mul", {x, raised}, "product");
  out.emit("Mul", {product, out.scalar(0.5, out.dtype())});
}

void gelu(NodeWriter& out, bool with_tanh) {
  const std::string x = out.in(0);
  if (out.opset() >= 20) {
    out.emit("Gelu", {x}, {{"approximate", with_tanh ? "tanh" : "none"}});
    return;
  }
  const DType dtype = out.dtype();
  if (!with_tanh) {
    const std::string scaled = out.inner("Mul", {x, out.scalar(1 / std::numbers::sqrt2, dtype)}, "scaled");
    half_of(out, x, out.inner("Erf", {scaled}, "erf"));
    return;
  }
  const std::string square = out.inner("Mul", {x, x}, "square");
  const std::string cube = out.inner("Mul", {square, x}, "cube");
  const std::string bent = out.inner("Add", {x, out.inner("Mul", {cube, out.scalar(0.044715, dtype)}, "bend")}, "bent");
  const double root = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;  // of 2 / pi
  half_of(out, x, out.inner("Tanh", {out.inner("Mul", {bent, out.scalar(root, dtype)}, "scaled")}, "tanh"));
}

void hard_swish(NodeWriter& out) {
  if (out.opset() >= 14) {
    out.emit("HardSwish", {out.in(0)});
    return;
  }
  const std::string gate = out.inner("HardSigmoid", {out.in(0)}, "gate", {{"alpha", 1.0F / 6.0F}, {"beta", 0.5F}});
  out.emit("Mul", {out.in(0), gate});
}

void softplus(NodeWriter& out) {
  const float beta = out.attributes().real("beta");
  const float threshold = out.attributes().real("threshold");
  const DType dtype = out.dtype();
  // From 16 on the function differs from its argument by less than 1e-7 of it.
  const bool cut = threshold < 16.0F;
  const std::string x = out.in(0);
  if (beta == 1.0F && !cut) {
    out.emit("Softplus", {x});
    return;
  }
  const std::string scaled =
      beta == 1.0F ? x : out.inner("Mul", {x, out.scalar(static_cast<double>(beta), dtype)}, "scaled");
  const std::string soft = out.inner("Softplus", {scaled}, "soft");
  const Names divided = {soft, out.scalar(static_cast<double>(beta), dtype)};
  if (!cut) {
    out.emit("Div", divided);
    return;
  }
  const std::string curve = beta == 1.0F ? soft : out.inner("Div", divided, "curve");
  const std::string above = out.inner("Greater", {scaled, out.scalar(static_cast<double>(threshold), dtype)}, "above");
  out.emit("Where", {above, x, curve});
}

}  // namespace

namespace write {

Status cast(NodeWriter& out) {
  out.emit("Cast", {out.in(0)}, {{"to", std::int64_t{data_type_of(out.result_dtype())}}});
  return {};
}

Status is_nan(NodeWriter& out) {
  out.emit("IsNaN", {out.in(0)});
  return {};
}

Status is_inf(NodeWriter& out) {
  Settings settings;
  for (const char* side : {"detect_negative", "detect_positive"}) {
    if (!out.attributes().flag(side)) settings.emplace_back(side, std::int64_t{0});
  }
  // 16-bit floats have infinities from opset 20 on.
  const bool narrow = out.dtype() == DType::kF16 || out.dtype() == DType::kBF16;
  out.emit("IsInf", {narrow && out.opset() < 20 ? out.cast(0, DType::kF32) : out.in(0)}, settings);
  return {};
}

Status element_wise_unary(NodeWriter& out) {
  const std::string& operation = out.attributes().text("operation");
  const DType dtype = out.dtype();
  if (dtype == DType::kBool) {
    out.emit("Not", {out.in(0)});
    return {};
  }
  if (operation == "bit_not") return bit_not(out);
  const bool rounds = operation == "ceil" || operation == "floor" || operation == "round" || operation == "trunc";
  if (!is_float(dtype) && rounds) {
    out.emit("Identity", {out.in(0)});
    return {};
  }
  if (operation == "trunc") {
    const std::string size = out.inner("Floor", {out.inner("Abs", {out.in(0)}, "size")}, "whole");
    out.emit("Mul", {out.inner("Sign", {out.in(0)}, "sign"), size});
    return {};
  }
  if (operation == "rsqrt") {
    out.emit("Reciprocal", {out.inner("Sqrt", {out.in(0)}, "root")});
    return {};
  }
  const auto at = plain_names().find(operation);
  if (at == plain_names().end()) return out.refuse(fmt::format("no operation {}", operation));
  const DType wide = wide_type(dtype);
  out.computed_in(wide == dtype ? out.result_dtype() : wide);
  if (operation == "neg" && dtype == DType::kU64) {
    out.emit("Sub", {out.scalar(0, dtype), out.in(0)});
    return {};
  }
  out.emit(at->second, {out.cast(0, wide)});
  return {};
}

Status element_wise_neuron(NodeWriter& out) {
  const std::string& operation = out.attributes().text("operation");
  const DType dtype = out.dtype();
  const auto real = [&out](const char* name) { return out.attributes().real(name); };
  if (operation == "relu" && !is_float(dtype)) {
    const DType wide = wide_type(dtype);
    out.computed_in(wide == dtype ? out.result_dtype() : wide);
    out.emit("Max", {out.cast(0, wide), out.scalar(0, wide)});
  } else if (operation == "relu") {
    out.emit("Relu", {out.in(0)});
  } else if (operation == "relu_min_max") {
    const std::string low = out.scalar(static_cast<double>(real("min_value")), dtype);
    out.emit("Clip", {out.in(0), low, out.scalar(static_cast<double>(real("max_value")), dtype)});
  } else if (operation == "sigmoid") {
    out.emit("Sigmoid", {out.in(0)});
  } else if (operation == "tanh") {
    out.emit("Tanh", {out.in(0)});
  } else if (operation == "gelu" || operation == "gelu_tanh") {
    gelu(out, operation == "gelu_tanh");
  } else if (operation == "hard_sigmoid") {
    out.emit("HardSigmoid", {out.in(0)}, {{"alpha", real("alpha")}, {"beta", real("beta")}});
  } else if (operation == "hard_swish") {
    hard_swish(out);
  } else if (operation == "elu") {
    out.emit("Elu", {out.in(0)}, {{"alpha", real("alpha")}});
  } else if (operation == "softplus") {
    softplus(out);
  } else {
    return out.refuse(fmt::format("no operation {}", operation));
  }
  return {};
}

}  // namespace write
}  // namespace htpipe::onnx_export
