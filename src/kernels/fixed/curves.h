// Functions of 16-bit values that the HTP approximates by polynomials and small tables, as closely as its answers show.
// Formulas: docs/htp-arithmetic.md, "Functions of 16 bits".
#pragma once

#include "kernels/fixed/elementwise.h"

namespace htpipe::kernels {

/// Square root: the value times its reciprocal root of 10 bits. Negative values count as 0.
[[nodiscard]] Unary wide_root(const Grid& from, const Grid& to);
/// log(1 + exp(beta x)) / beta: a polynomial of degree 4 between -2 and 5.
[[nodiscard]] Unary wide_softplus(double beta, double threshold, const Grid& from, const Grid& to);
/// x times a normal distribution of 12 bits, which cubics make.
[[nodiscard]] Unary wide_gelu(const Grid& from, const Grid& to);

}  // namespace htpipe::kernels
