// Elementwise operators with two operands, and the choice between two.
#include <fmt/core.h>

#include <map>
#include <numbers>

#include "export/onnx/arithmetic.h"
#include "export/onnx/operators.h"

namespace htpipe::onnx_export {

DType wide_type(DType dtype) {
  switch (dtype) {
    case DType::kI8:
    case DType::kI16:
    case DType::kU8:
    case DType::kU16:
    case DType::kBool:
      return DType::kI32;
    case DType::kU32:
      return DType::kI64;
    default:
      return dtype;
  }
}

namespace {

/// What ONNX has under another name.
const std::map<std::string_view, std::string_view>& plain_names() {
  static const std::map<std::string_view, std::string_view> names = {{"add", "Add"},
                                                                     {"divide", "Div"},
                                                                     {"equal", "Equal"},
                                                                     {"greater", "Greater"},
                                                                     {"greater_equal", "GreaterOrEqual"},
                                                                     {"less", "Less"},
                                                                     {"less_equal", "LessOrEqual"},
                                                                     {"maximum", "Max"},
                                                                     {"minimum", "Min"},
                                                                     {"multiply", "Mul"},
                                                                     {"power", "Pow"},
                                                                     {"subtract", "Sub"}};
  return names;
}

/// What ONNX has for bool.
const std::map<std::string_view, std::string_view>& logic_names() {
  static const std::map<std::string_view, std::string_view> names = {
      {"add", "Or"},       {"and", "And"},     {"bit_and", "And"}, {"bit_or", "Or"},
      {"bit_xor", "Xor"},  {"equal", "Equal"}, {"maximum", "Or"},  {"minimum", "And"},
      {"multiply", "And"}, {"or", "Or"},       {"xor", "Xor"}};
  return names;
}

/// Floats: the remainder with the sign of the dividend; `flip` says where the divisor has the other sign.
struct Remainder {
  std::string rest;
  std::string flip;
};

Remainder remainder_of(NodeWriter& out, const std::string& a, const std::string& b) {
  Remainder remainder;
  const std::string zero = out.scalar(0, out.dtype());
  remainder.rest = out.inner("Mod", {a, b}, "rest", {{"fmod", std::int64_t{1}}});
  const std::string exact = out.inner("Equal", {remainder.rest, zero}, "exact");
  const std::string inexact = out.inner("Not", {exact}, "inexact");
  const std::string left = out.inner("Less", {remainder.rest, zero}, "rest_sign");
  const std::string right = out.inner("Less", {b, zero}, "divisor_sign");
  const std::string signs = out.inner("Xor", {left, right}, "signs");
  remainder.flip = out.inner("And", {inexact, signs}, "flip");
  return remainder;
}

Status mod(NodeWriter& out, const std::string& a, const std::string& b) {
  if (!is_float(out.dtype())) {
    out.emit("Mod", {a, b});
    return {};
  }
  const Remainder remainder = remainder_of(out, a, b);
  const std::string moved = out.inner("Add", {remainder.rest, b}, "moved");
  out.emit("Where", {remainder.flip, moved, remainder.rest});
  return {};
}

/// The quotient that belongs to mod. Floor(a / b) would be one too large where a / b rounds up to a whole number.
Status floor_div(NodeWriter& out, const std::string& a, const std::string& b) {
  if (!is_float(out.dtype())) {
    const std::string rest = out.inner("Mod", {a, b}, "rest");
    out.emit("Div", {out.inner("Sub", {a, rest}, "whole"), b});
    return {};
  }
  const Remainder remainder = remainder_of(out, a, b);
  const std::string whole = out.inner("Sub", {a, remainder.rest}, "whole");
  const std::string quotient = out.inner("Div", {whole, b}, "quotient");
  const std::string one = out.inner("Cast", {remainder.flip}, "one", {{"to", std::int64_t{data_type_of(out.dtype())}}});
  out.emit("Round", {out.inner("Sub", {quotient, one}, "lower")});
  return {};
}

Status atan2(NodeWriter& out, const std::string& a, const std::string& b) {
  const DType dtype = out.dtype();
  const std::string zero = out.scalar(0, dtype);
  const std::string angle = out.inner("Atan", {out.inner("Div", {a, b}, "ratio")}, "angle");
  const std::string below = out.inner("Less", {a, zero}, "below");
  const std::string turn =
      out.inner("Where", {below, out.scalar(-std::numbers::pi, dtype), out.scalar(std::numbers::pi, dtype)}, "turn");
  const std::string left = out.inner("Less", {b, zero}, "left");
  const std::string turned = out.inner("Add", {angle, turn}, "turned");
  const std::string anywhere = out.inner("Where", {left, turned, angle}, "anywhere");
  // On the vertical axis: the quotient's sign is that of a zero.
  const std::string upright =
      out.inner("Mul", {out.inner("Sign", {a}, "sign"), out.scalar(std::numbers::pi / 2, dtype)}, "upright");
  out.emit("Where", {out.inner("Equal", {b, zero}, "vertical"), upright, anywhere});
  return {};
}

/// A shift of signed numbers to the right by a constant is a division that rounds down.
Status shift(NodeWriter& out, bool left) {
  const DType dtype = out.dtype();
  const DType bits = dtype == DType::kI64   ? DType::kU64
                     : dtype == DType::kI32 ? DType::kU32
                     : dtype == DType::kI16 ? DType::kU16
                     : dtype == DType::kI8  ? DType::kU8
                                            : dtype;
  const auto as_bits = [&](std::size_t i) {
    if (bits == dtype) return out.in(i);
    return out.inner("Cast", {out.in(i)}, "bits", {{"to", std::int64_t{data_type_of(bits)}}});
  };
  if (left || bits == dtype) {
    out.computed_in(bits);
    const std::string value = as_bits(0);
    out.emit("BitShift", {value, as_bits(1)}, {{"direction", left ? "LEFT" : "RIGHT"}});
    return {};
  }
  const Tensor* by = out.constant(1);
  if (by == nullptr || by->count() != 1)
    return out.refuse("a shift of signed numbers to the right by computed amounts");
  const std::int64_t amount = to_integers(*by).front();
  const auto width = static_cast<std::int64_t>(8 * size_of(dtype));
  if (amount < 0 || amount >= width - 1) return out.refuse(fmt::format("a shift by {} of {} bits", amount, width));
  const DType wide = wide_type(dtype);
  out.computed_in(wide);
  const std::string a = out.cast(0, wide);
  const std::string divisor = out.scalar(static_cast<double>(std::int64_t{1} << amount), wide);
  if (amount > 52) return out.refuse("a shift by more than 52 bits");
  const std::string rest = out.inner("Mod", {a, divisor}, "rest");
  out.emit("Div", {out.inner("Sub", {a, rest}, "whole"), divisor});
  return {};
}

Status bits(NodeWriter& out, const std::string& operation) {
  if (out.opset() < 18) return out.refuse(fmt::format("{} of integers needs opset 18", operation));
  const std::string_view op_type = operation == "bit_and"  ? "BitwiseAnd"
                                   : operation == "bit_or" ? "BitwiseOr"
                                                           : "BitwiseXor";
  out.emit(op_type, {out.in(0), out.in(1)});
  return {};
}

}  // namespace

namespace write {

Status element_wise_binary(NodeWriter& out) {
  const std::string& operation = out.attributes().text("operation");
  out.activation_behind();
  const DType dtype = out.dtype();
  if (dtype == DType::kBool && operation == "not_equal") {
    out.emit("Xor", {out.in(0), out.in(1)});
    return {};
  }
  if (const auto at = logic_names().find(operation); dtype == DType::kBool && at != logic_names().end()) {
    out.emit(at->second, {out.in(0), out.in(1)});
    return {};
  }
  if (operation == "shift_left" || operation == "shift_right") return shift(out, operation == "shift_left");
  if (operation.rfind("bit_", 0) == 0) return bits(out, operation);
  const DType wide = wide_type(dtype);
  if (out.result_dtype() != DType::kBool) out.computed_in(wide == dtype ? out.result_dtype() : wide);
  const std::string a = out.cast(0, wide);
  const std::string b = out.cast(1, wide);
  if (const auto at = plain_names().find(operation); at != plain_names().end()) {
    out.emit(at->second, {a, b});
    return {};
  }
  if (operation == "not_equal") {
    out.emit("Not", {out.inner("Equal", {a, b}, "equal")});
    return {};
  }
  if (operation == "squared_difference") {
    const std::string difference = out.inner("Sub", {a, b}, "difference");
    out.emit("Mul", {difference, difference});
    return {};
  }
  if (operation == "fmod") {
    out.emit("Mod", {a, b}, {{"fmod", std::int64_t{1}}});
    return {};
  }
  if (operation == "mod") return mod(out, a, b);
  if (operation == "floor_div") return floor_div(out, a, b);
  if (operation == "atan2") return atan2(out, a, b);
  return out.refuse(fmt::format("no operation {} of {}", operation, htpipe::name_of(dtype)));
}

Status element_wise_select(NodeWriter& out) {
  const DType dtype = out.dtype(1);
  if (dtype == DType::kBool) {
    const std::string first = out.inner("And", {out.in(0), out.in(1)}, "first");
    const std::string other = out.inner("Not", {out.in(0)}, "other");
    out.emit("Or", {first, out.inner("And", {other, out.in(2)}, "second")});
    return {};
  }
  const DType wide = wide_type(dtype);
  out.computed_in(wide == dtype ? out.result_dtype() : wide);
  const std::string a = out.cast(1, wide);
  out.emit("Where", {out.in(0), a, out.cast(2, wide)});
  return {};
}

Status prelu(NodeWriter& out) {
  out.emit("PRelu", {out.in(0), out.in(1)});
  return {};
}

}  // namespace write
}  // namespace htpipe::onnx_export
