#include "ops/binary_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "kernels/fixed/quotient.h"

namespace htpipe::ops {
namespace {

using kernels::Binary;
using kernels::Grid;

bool is_scalar(const NodeView& node, std::size_t operand) {
  return node.constants[operand] != nullptr && node.constants[operand]->count() == 1;
}

/// With a constant of one element the chip makes a table of the other 8-bit operand; a positive factor is a Convert.
Binary with_scalar(const std::string& operation, const Grid& data, double scalar, bool scalar_first, const Grid& out) {
  kernels::Unary unary;
  if (operation == "multiply" && scalar > 0) {
    Grid scaled = data;
    scaled.scale *= scalar;
    unary = kernels::convert(scaled, out);
  } else {
    const auto value = [operation, scalar, scalar_first](double x) {
      if (operation == "add") return x + scalar;
      if (operation == "subtract") return scalar_first ? scalar - x : x - scalar;
      if (operation == "multiply") return x * scalar;
      return operation == "maximum" ? std::max(x, scalar) : std::min(x, scalar);
    };
    unary = kernels::table(value, data, out);
  }
  return [unary, scalar_first](std::int64_t x, std::int64_t y) { return unary(scalar_first ? y : x); };
}

/// Both operands as real numbers. Near ties between values of unequal scales the chip decides otherwise now and then.
template <typename Compare>
Binary comparison(const Grid& a, const Grid& b, Compare compare) {
  return [=](std::int64_t x, std::int64_t y) -> std::int64_t {
    return compare(static_cast<double>(x - a.zero) * a.scale, static_cast<double>(y - b.zero) * b.scale) ? 1 : 0;
  };
}

/// Computed in single precision and rounded half to even behind the zero point, like a table.
Binary power(const Grid& a, const Grid& b, const Grid& out) {
  return [=](std::int64_t x, std::int64_t y) {
    const auto base = static_cast<double>(kernels::dequantize(x, a));
    return kernels::table_entry(std::pow(base, static_cast<double>(kernels::dequantize(y, b))), out);
  };
}

}  // namespace

Result<Binary> binary_rule(const NodeView& node, const TensorType& result) {
  HTPIPE_TRY(const Grid a, Grid::of(node.type(0)));
  HTPIPE_TRY(const Grid b, Grid::of(node.type(1)));
  const std::string& operation = node.attributes.text("operation");
  if (operation == "equal") return comparison(a, b, [](double x, double y) { return x == y; });
  if (operation == "not_equal") return comparison(a, b, [](double x, double y) { return x != y; });
  if (operation == "less") return comparison(a, b, [](double x, double y) { return x < y; });
  if (operation == "less_equal") return comparison(a, b, [](double x, double y) { return x <= y; });
  if (operation == "greater") return comparison(a, b, [](double x, double y) { return x > y; });
  if (operation == "greater_equal") return comparison(a, b, [](double x, double y) { return x >= y; });
  HTPIPE_TRY(const Grid out, Grid::of(result));
  if (a.wide() != b.wide() || a.wide() != out.wide()) {
    return fail(Code::kNoFixedRule, fmt::format("{} of values of 8 and 16 bits", operation));
  }
  if (operation == "divide") {
    const double scalar = is_scalar(node, 1) && !out.wide() ? node.constants[1]->real(0) : 0;
    if (scalar > 0) return with_scalar("multiply", a, 1 / scalar, false, out);
    return kernels::divide(a, b, out);
  }
  if (operation == "floor_div") return kernels::floor_divide(a, b, out);
  if (operation == "power") {
    const double exponent = is_scalar(node, 1) && out.wide() ? node.constants[1]->real(0) : 0;
    if (std::fabs(exponent - 2) > 1e-5) return power(a, b, out);
    return Binary([product = kernels::multiply(a, a, out)](std::int64_t x, std::int64_t) { return product(x, x); });
  }
  if (operation == "squared_difference") return kernels::squared_difference(a, b, out);
  const bool lists = operation == "add" || operation == "subtract" || operation == "multiply" ||
                     operation == "maximum" || operation == "minimum";
  if (operation == "mod" || operation == "fmod") {
    return fail(Code::kNoFixedRule, fmt::format("the chip has no {} of stored values", operation));
  }
  if (!lists) return fail(Code::kNoFixedRule, fmt::format("no integer arithmetic for {}", operation));
  const bool first_scalar = is_scalar(node, 0);
  if (!out.wide() && (first_scalar || is_scalar(node, 1))) {
    return with_scalar(operation, first_scalar ? b : a, node.constants[first_scalar ? 0 : 1]->real(0), first_scalar,
                       out);
  }
  if (operation == "multiply") return kernels::multiply(a, b, out);
  if (operation == "maximum" || operation == "minimum") return kernels::maximum(a, b, out, operation == "minimum");
  return kernels::add(a, b, out, operation == "subtract");
}

}  // namespace htpipe::ops
