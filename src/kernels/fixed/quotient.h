// Division of stored values as the HTP does it: mantissas of 15 bits and a reciprocal made of parabolas.
// Formulas: docs/htp-arithmetic.md, "Divide".
#pragma once

#include <cstdint>

#include "kernels/fixed/elementwise.h"

namespace htpipe::kernels {

/// A number as mantissa * 2^exponent, the mantissa of 15 bits (2^14 to 2^15 - 1), lower bits cut off; 0 stays 0.
struct Normalised {
  std::int64_t mantissa = 0;
  int exponent = 0;
  static Normalised of(std::int64_t magnitude);
};

/// 2^28 / mantissa, nearly: for mantissas of 15 bits, in 2^13 to 2^14.
[[nodiscard]] std::int64_t reciprocal(std::int64_t mantissa);

/// Quotient of two 8-bit or two 16-bit values. By zero: the highest value, from negative numbers the lowest.
[[nodiscard]] Binary divide(const Grid& a, const Grid& b, const Grid& out);
/// The next lower whole number of the quotient. The chip floors a quotient of 15 bits: one that close to a whole number
/// can come out on the other side of it.
[[nodiscard]] Binary floor_divide(const Grid& a, const Grid& b, const Grid& out);

}  // namespace htpipe::kernels
