// Plain definitions of the elementwise operators, one element at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>

#include "conformance_call.h"

namespace htpipe::conformance {
namespace {

/// Element of `shape` at the last axes of `position`; axes of size 1 repeat.
std::size_t broadcast_index(const Shape& shape, const Shape& position) {
  Index index = 0;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    const Index p = position[position.size() - shape.size() + axis];
    index = index * shape[axis] + (shape[axis] == 1 ? 0 : p);
  }
  return at(index);
}

double activated(const Attributes& attributes, double x) {
  const std::string& name = attributes.text("activation");
  if (name == "relu") return std::max(x, 0.0);
  if (name == "relu6") return std::min(std::max(x, 0.0), 6.0);
  return x;
}

double truth(bool holds) { return holds ? 1 : 0; }
Index whole(double x) { return static_cast<Index>(x); }

/// `whole_numbers`: the operands are integers, whose quotients lose their fraction.
double binary(const std::string& operation, double a, double b, bool whole_numbers) {
  using Function = std::function<double(double, double)>;
  static const std::map<std::string, Function> functions = {
      {"add", [](double x, double y) { return x + y; }},
      {"subtract", [](double x, double y) { return x - y; }},
      {"multiply", [](double x, double y) { return x * y; }},
      {"divide", [](double x, double y) { return x / y; }},
      {"maximum", [](double x, double y) { return x > y ? x : y; }},
      {"minimum", [](double x, double y) { return x < y ? x : y; }},
      {"power", [](double x, double y) { return std::exp2(y * std::log2(x)); }},
      {"squared_difference", [](double x, double y) { return x * x - 2 * x * y + y * y; }},
      {"floor_div", [](double x, double y) { return std::floor(x / y); }},
      {"fmod", [](double x, double y) { return x - y * std::trunc(x / y); }},
      {"mod", [](double x, double y) { return x - y * std::floor(x / y); }},
      {"atan2", [](double x, double y) { return 2 * std::atan(x / (std::hypot(x, y) + y)); }},
      {"equal", [](double x, double y) { return truth(x == y); }},
      {"not_equal", [](double x, double y) { return truth(x != y); }},
      {"less", [](double x, double y) { return truth(x < y); }},
      {"less_equal", [](double x, double y) { return truth(x <= y); }},
      {"greater", [](double x, double y) { return truth(x > y); }},
      {"greater_equal", [](double x, double y) { return truth(x >= y); }},
      {"and", [](double x, double y) { return truth(x != 0 && y != 0); }},
      {"or", [](double x, double y) { return truth(x != 0 || y != 0); }},
      {"xor", [](double x, double y) { return truth((x != 0) != (y != 0)); }},
      {"bit_and", [](double x, double y) { return static_cast<double>(whole(x) & whole(y)); }},
      {"bit_or", [](double x, double y) { return static_cast<double>(whole(x) | whole(y)); }},
      {"bit_xor", [](double x, double y) { return static_cast<double>(whole(x) ^ whole(y)); }},
      {"shift_left", [](double x, double y) { return x * std::exp2(y); }},
      {"shift_right", [](double x, double y) { return std::floor(x / std::exp2(y)); }},
  };
  const auto found = functions.find(operation);
  if (found == functions.end()) {
    ADD_FAILURE() << "no reference for " << operation;
    return NAN;
  }
  const double result = found->second(a, b);
  return whole_numbers && operation == "divide" ? std::trunc(result) : result;
}

double unary(const std::string& operation, double x) {
  using Function = std::function<double(double)>;
  static const std::map<std::string, Function> functions = {
      {"abs", [](double v) { return v < 0 ? -v : v; }},
      {"acos", [](double v) { return std::acos(v); }},
      {"acosh", [](double v) { return std::log(v + std::sqrt(v * v - 1)); }},
      {"asin", [](double v) { return std::asin(v); }},
      {"asinh", [](double v) { return std::asinh(v); }},
      {"atan", [](double v) { return std::atan(v); }},
      {"atanh", [](double v) { return std::log((1 + v) / (1 - v)) / 2; }},
      {"bit_not", [](double v) { return -v - 1; }},
      {"ceil", [](double v) { return -std::floor(-v); }},
      {"cos", [](double v) { return std::cos(v); }},
      {"cosh", [](double v) { return (std::exp(v) + std::exp(-v)) / 2; }},
      {"erf", [](double v) { return 1 - std::erfc(v); }},
      {"exp", [](double v) { return std::exp(v); }},
      {"floor", [](double v) { return std::floor(v); }},
      {"log", [](double v) { return std::log(v); }},
      {"neg", [](double v) { return 0 - v; }},
      {"not", [](double v) { return truth(v == 0); }},
      {"reciprocal", [](double v) { return 1 / v; }},
      {"round",
       [](double v) {
         const double down = std::floor(v);
         if (v - down != 0.5) return std::floor(v + 0.5);
         return std::fmod(down, 2) == 0 ? down : down + 1;
       }},
      {"rsqrt", [](double v) { return 1 / std::sqrt(v); }},
      {"sign", [](double v) { return truth(v > 0) - truth(v < 0); }},
      {"sin", [](double v) { return std::sin(v); }},
      {"sinh", [](double v) { return (std::exp(v) - std::exp(-v)) / 2; }},
      {"sqrt", [](double v) { return std::sqrt(v); }},
      {"tan", [](double v) { return std::sin(v) / std::cos(v); }},
      {"trunc", [](double v) { return v < 0 ? -std::floor(-v) : std::floor(v); }},
  };
  const auto found = functions.find(operation);
  if (found != functions.end()) return found->second(x);
  ADD_FAILURE() << "no reference for " << operation;
  return NAN;
}

double neuron(const Attributes& attributes, double x) {
  const std::string& operation = attributes.text("operation");
  const auto real = [&attributes](const char* name) { return static_cast<double>(attributes.real(name)); };
  if (operation == "relu") return std::max(x, 0.0);
  if (operation == "relu_min_max") return std::min(std::max(x, real("min_value")), real("max_value"));
  if (operation == "sigmoid") return 1 / (1 + std::exp(-x));
  if (operation == "tanh") return (std::exp(2 * x) - 1) / (std::exp(2 * x) + 1);
  if (operation == "gelu") return x * 0.5 * std::erfc(-x / std::sqrt(2.0));
  if (operation == "gelu_tanh") {
    const double inner = std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * std::pow(x, 3));
    return x / (1 + std::exp(-2 * inner));
  }
  if (operation == "hard_sigmoid") return std::min(std::max(x + 3, 0.0), 6.0) / 6;
  if (operation == "hard_swish") return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
  if (operation == "elu") return x > 0 ? x : real("alpha") * (std::exp(x) - 1);
  if (operation == "softplus") {
    return real("beta") * x > real("threshold") ? x : std::log(1 + std::exp(real("beta") * x)) / real("beta");
  }
  ADD_FAILURE() << "no reference for " << operation;
  return NAN;
}

double cast(double x, DType to) {
  if (to == DType::kBool) return truth(x != 0);
  return is_float(to) ? x : std::trunc(x);
}

}  // namespace

std::optional<Numbers> elementwise(const Call& call) {
  const std::string op(call.node.op->name);
  const Shape& shape = call.out_shape();
  Numbers result(at(element_count(shape)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    const Shape position = unravel(shape, static_cast<Index>(i));
    const auto operand = [&](std::size_t index) {
      return (*call.in[index])[broadcast_index(call.shape(index), position)];
    };
    if (op == "ElementWiseBinary") {
      const bool whole_numbers = is_integer(call.node.operands[0]->type.dtype);
      const double x = binary(call.attributes().text("operation"), operand(0), operand(1), whole_numbers);
      result[i] = activated(call.attributes(), x);
    } else if (op == "ElementWiseUnary") {
      result[i] = unary(call.attributes().text("operation"), operand(0));
    } else if (op == "ElementWiseNeuron") {
      result[i] = neuron(call.attributes(), operand(0));
    } else if (op == "ElementWiseSelect") {
      result[i] = operand(0) != 0 ? operand(1) : operand(2);
    } else if (op == "Prelu") {
      result[i] = std::max(operand(0), 0.0) + operand(1) * std::min(operand(0), 0.0);
    } else if (op == "Cast") {
      result[i] = cast(operand(0), call.node.result()->type.dtype);
    } else if (op == "IsNan") {
      result[i] = truth(std::isnan(operand(0)));
    } else if (op == "IsInf") {
      const bool negative = call.attributes().flag("detect_negative") && operand(0) < 0;
      const bool positive = call.attributes().flag("detect_positive") && operand(0) > 0;
      result[i] = truth(std::isinf(operand(0)) && (negative || positive));
    } else {
      return std::nullopt;
    }
  }
  return result;
}

}  // namespace htpipe::conformance
