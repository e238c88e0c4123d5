// Values as sums and products: what a chain of elementwise nodes computes, whatever the nodes are.
// x * 0.5 / y, 0.5 * (x / y) and x / (y * 2) are the same product; x - 3, x + -3 and -(3 - x) the same sum. Square roots,
// reciprocals and powers are exponents; factors that all terms of a sum share are pulled out of it.
// Invariant: a node with other users than the one that leads to it is a factor by itself, but for products with a
// scalar, which are looked through. Forms are bounded in size, so walking over all nodes of a graph is linear.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

#include "ir/graph.h"

namespace htpipe::passes::algebra {

struct Sum;

/// `base ^ exponent`: the base is a value, or a sum that no node computes in this form.
struct Factor {
  Value* value = nullptr;
  std::shared_ptr<const Sum> sum = nullptr;
  double exponent = 1;
};

/// A node's value that is the product of the factors [begin, end) and of `scalar`, raised to `exponent`.
struct ProductSpan {
  Value* value;
  std::size_t begin;
  std::size_t end;
  double exponent;
  double scalar;  ///< of all scalars within the span, raised to the exponent already
};

struct Product {
  double scalar = 1;
  std::vector<Factor> factors;
  std::vector<ProductSpan> spans;  ///< inner before outer; single factors are among them
};

/// A node's value that, times `scale`, is the sum of the terms [begin, end) and of `constant`.
struct SumSpan {
  Value* value;
  std::size_t begin;
  std::size_t end;
  double scale;
  double constant;
};

struct Sum {
  double constant = 0;
  std::vector<Product> terms;
  std::vector<SumSpan> spans;  ///< those of two terms or more, or with a constant
};

/// The product that `value` is. With `open` its producer is taken apart even if it has other users.
[[nodiscard]] Product product_of(const Graph& graph, Value* value, bool open);
/// The sum that `value` is when a sum or difference produces it and may be taken apart; null otherwise.
[[nodiscard]] std::shared_ptr<const Sum> sum_of(const Graph& graph, Value* value, bool open);

/// A product with a scalar: it is taken apart whoever else uses it.
[[nodiscard]] bool looked_through(const Node& node);

/// A sum, a product, a clamp, a mean: what other nodes may compute as well, with other operators.
[[nodiscard]] bool has_many_spellings(const Node& node);

/// The one element of a float32 constant; nullopt when the value is something else.
[[nodiscard]] std::optional<double> scalar_of(const Value* value);
/// Equal but for the rounding of float32 constants and of a few products of them.
[[nodiscard]] bool near(double a, double b);

/// min(max(operand, low), high), by whatever node: a clamp, a relu, a maximum, a minimum, a fused activation.
struct Clamp {
  Value* operand = nullptr;  ///< null when the clamp is the activation of `fused`
  Node* fused = nullptr;
  double low;
  double high;
};
[[nodiscard]] std::optional<Clamp> clamp_of(const Graph& graph, const Value* value);
/// What the node computes in front of its activation; nullopt when it is no sum or product.
[[nodiscard]] std::optional<Product> without_activation(const Graph& graph, Node& node);

/// `factor` times the mean of `operand` (or of its square) along `axes`, which stay in the shape with `keep_dims`.
/// By ReduceMean, ReduceSum, ReduceSumSquare, a mean pool over all pixels; a Reshape that puts the axes back counts.
struct Mean {
  Value* operand;
  bool squared = false;
  std::vector<std::int64_t> axes;
  bool keep_dims = true;
  double factor = 1;
};
[[nodiscard]] std::optional<Mean> mean_of(const Graph& graph, const Value* value);

}  // namespace htpipe::passes::algebra
