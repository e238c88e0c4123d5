// Matrix products.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "import/pt2/mappers.h"

namespace htpipe::pt2 {
namespace {

const Shape& shape_of(const Value* value) { return value->type.shape; }

std::int64_t product(Shape::const_iterator from, Shape::const_iterator to) {
  return std::accumulate(from, to, std::int64_t{1}, std::multiplies<>());
}

/// `b` as the weights [out, in] of a FullyConnected, if it is a constant matrix, or the transpose of one.
One weights_of(Call& call, Value* b) {
  if (shape_of(b).size() != 2) return nullptr;
  const htpipe::Node* producer = b->producer;
  if (producer != nullptr && producer->is("Transpose") && producer->operands[0]->is_constant()) {
    return producer->operands[0];
  }
  if (!b->is_constant()) return nullptr;
  return call.constant("weight", htpipe::transpose(b->constant, {1, 0}));
}

One product_of(Call& call, Value* a, Value* b, std::string_view suffix) {
  // A constant matrix on the right is a layer's weight: the quantiser knows those of a FullyConnected.
  if (is_float(a->type.dtype) && shape_of(a).size() >= 2) {
    HTPIPE_TRY(Value * weights, weights_of(call, b));
    if (weights != nullptr) {
      return call.add("FullyConnected", {{"keep_dims", shape_of(a).size() > 2}}, {a, weights, nullptr}, suffix);
    }
  }
  return call.add("MatMul", {}, {a, b}, suffix);
}

One scaled(Call& call, Value* value, const char* name, DType dtype) {
  HTPIPE_TRY(const double factor, call.real(name, 1.0));
  if (factor == 1.0) return value;
  HTPIPE_TRY(Value * number, call.scalar(factor, dtype, name));
  return call.binary("multiply", value, number, fmt::format("{}_scaled", name));
}

// --- einsum ---------------------------------------------------------------------------------------------------------

/// A tensor whose axes have letters.
struct Term {
  Value* value;
  std::string axes;
};

/// The axes of `term` in the order of `axes`; those that it lacks are left out.
One ordered(Call& call, const Term& term, const std::string& axes, std::string_view suffix) {
  IntList order;
  for (const char letter : axes) order.push_back(static_cast<std::int64_t>(term.axes.find(letter)));
  return call.transpose(term.value, order, suffix);
}

/// Sums over the axes that nobody needs.
Result<Term> summed(Call& call, Term term, const std::string& needed) {
  IntList axes;
  std::string left;
  for (std::size_t i = 0; i < term.axes.size(); ++i) {
    if (needed.find(term.axes[i]) == std::string::npos) {
      axes.push_back(static_cast<std::int64_t>(i));
    } else {
      left += term.axes[i];
    }
  }
  HTPIPE_TRY(term.value, call.reduce("ReduceSum", term.value, axes, false, "summed"));
  term.axes = left;
  return term;
}

/// The product of two terms; axes that both have and nobody needs are summed over.
Result<Term> contracted(Call& call, Term a, Term b, const std::string& needed) {
  HTPIPE_TRY(a, summed(call, std::move(a), needed + b.axes));
  HTPIPE_TRY(b, summed(call, std::move(b), needed + a.axes));
  std::string batch;
  std::string inner;
  std::string rows;
  std::string columns;
  Shape sizes;
  for (std::size_t i = 0; i < a.axes.size(); ++i) {
    const char letter = a.axes[i];
    const bool both = b.axes.find(letter) != std::string::npos;
    (!both ? rows : needed.find(letter) != std::string::npos ? batch : inner) += letter;
  }
  for (const char letter : b.axes) {
    if (a.axes.find(letter) == std::string::npos) columns += letter;
  }
  HTPIPE_TRY(Value * left, ordered(call, a, batch + rows + inner, "left"));
  HTPIPE_TRY(Value * right, ordered(call, b, batch + inner + columns, "right"));
  const auto n = static_cast<std::ptrdiff_t>(batch.size());
  const Shape& l = shape_of(left);
  const Shape& r = shape_of(right);
  const auto row_end = n + static_cast<std::ptrdiff_t>(rows.size());
  const auto inner_end = n + static_cast<std::ptrdiff_t>(inner.size());
  Shape result(l.begin(), l.begin() + row_end);
  result.insert(result.end(), r.begin() + inner_end, r.end());
  const Shape left_matrix = {product(l.begin(), l.begin() + n), product(l.begin() + n, l.begin() + row_end),
                             product(l.begin() + row_end, l.end())};
  const Shape right_matrix = {product(r.begin(), r.begin() + n), product(r.begin() + n, r.begin() + inner_end),
                              product(r.begin() + inner_end, r.end())};
  if (left_matrix[0] != right_matrix[0] || left_matrix[2] != right_matrix[1]) {
    return fail(Code::kUnsupportedForm, "einsum of axes of unequal size");
  }
  HTPIPE_TRY(left, call.reshape(left, left_matrix, "left_matrix"));
  HTPIPE_TRY(right, call.reshape(right, right_matrix, "right_matrix"));
  HTPIPE_TRY(Value * matrix, call.add("MatMul", {}, {left, right}, "product"));
  HTPIPE_TRY(Value * value, call.reshape(matrix, result, "shaped"));
  return Term{value, batch + rows + columns};
}

/// The letters of a term; "..." becomes the last of the capital letters behind 'Z'.
Result<std::string> letters_of(std::string_view text, std::size_t rank, std::string& dots) {
  const std::size_t at = text.find("...");
  std::string letters(text.substr(0, at));
  if (at != std::string_view::npos) {
    const std::string_view behind = text.substr(at + 3);
    if (letters.size() + behind.size() > rank) return fail(Code::kUnsupportedForm, "einsum of another rank");
    const std::size_t count = rank - letters.size() - behind.size();
    std::string mine;
    for (std::size_t i = count; i-- > 0;) mine += static_cast<char>('0' + i);
    if (count > 10) return fail(Code::kUnsupportedForm, "einsum of a high rank");
    if (mine.size() > dots.size()) dots = mine;
    letters += mine + std::string(behind);
  }
  if (letters.size() != rank) return fail(Code::kUnsupportedForm, "einsum of another rank");
  std::string sorted = letters;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    return fail(Code::kUnsupportedForm, "einsum with an axis that occurs twice in one tensor");
  }
  return letters;
}

}  // namespace

/// Products of all ranks; vectors become matrices and back.
One matmul(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  const bool vector = call.node().input("vec") != nullptr;
  HTPIPE_TRY(Value * a, call.tensor(call.node().input("self") != nullptr ? "self" : "input"));
  const char* other = call.node().input("mat2") != nullptr ? "mat2" : vector ? "vec" : "other";
  HTPIPE_TRY(Value * b, call.tensor(call.node().input(other) != nullptr ? other : "tensor"));
  HTPIPE_TRY(a, call.cast(a, dtype, "a"));
  HTPIPE_TRY(b, call.cast(b, dtype, "b"));
  const bool row = shape_of(a).size() == 1;
  const bool column = shape_of(b).size() == 1;
  if (shape_of(a).empty() || shape_of(b).empty()) return fail(Code::kUnsupportedForm, "a product of scalars");
  if (row) {
    HTPIPE_TRY(a, call.reshape(a, {1, shape_of(a)[0]}, "row"));
  }
  if (column) {
    HTPIPE_TRY(b, call.reshape(b, {shape_of(b)[0], 1}, "column"));
  }
  if (!row && !column) return product_of(call, a, b, "");
  const TensorMeta* meta = call.declared();
  if (meta == nullptr) return fail(Code::kUnsupportedForm, "a result whose shape is not declared");
  HTPIPE_TRY(Value * matrix, call.add("MatMul", {}, {a, b}, "matrix"));
  return call.reshape(matrix, meta->sizes);
}

/// addmm, baddbmm, addmv: beta * self + alpha * a @ b.
One add_matmul(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  const std::string_view name = call.argument();
  HTPIPE_TRY(Value * self, call.tensor("self"));
  HTPIPE_TRY(Value * a, call.tensor(name == "addmm" ? "mat1" : name == "addmv" ? "mat" : "batch1"));
  HTPIPE_TRY(Value * b, call.tensor(name == "addmm" ? "mat2" : name == "addmv" ? "vec" : "batch2"));
  HTPIPE_TRY(const double alpha, call.real("alpha", 1.0));
  HTPIPE_TRY(const double beta, call.real("beta", 1.0));
  if (name == "addmm" && alpha == 1.0 && beta == 1.0 && is_float(dtype) && shape_of(self).size() == 1 &&
      shape_of(b).size() == 2 && shape_of(self)[0] == shape_of(b)[1]) {
    HTPIPE_TRY(Value * weights, weights_of(call, b));
    if (weights != nullptr) return call.add("FullyConnected", {{"keep_dims", false}}, {a, weights, self});
  }
  if (name == "addmv") {
    HTPIPE_TRY(b, call.reshape(b, {b->type.count(), 1}, "column"));
  }
  HTPIPE_TRY(Value * matrix, product_of(call, a, b, "product"));
  if (name == "addmv") {
    HTPIPE_TRY(matrix, call.reshape(matrix, {matrix->type.count()}, "vector"));
  }
  HTPIPE_TRY(matrix, scaled(call, matrix, "alpha", dtype));
  if (beta == 0.0) return matrix;
  HTPIPE_TRY(self, scaled(call, self, "beta", dtype));
  return call.binary("add", self, matrix);
}

One linear(Call& call) {
  HTPIPE_TRY(Value * input, call.tensor("input"));
  HTPIPE_TRY(Value * weight, call.tensor("weight"));
  HTPIPE_TRY(Value * bias, call.optional_tensor("bias"));
  const Shape& shape = shape_of(input);
  if (shape.size() >= 2 && shape_of(weight).size() == 2) {
    return call.add("FullyConnected", {{"keep_dims", shape.size() > 2}}, {input, weight, bias});
  }
  const TensorMeta* meta = call.declared();
  if (meta == nullptr || shape.empty() || shape_of(weight).empty()) {
    return fail(Code::kUnsupportedForm, "linear of " + to_string(shape));
  }
  HTPIPE_TRY(Value * rows, call.reshape(input, {product(shape.begin(), shape.end() - 1), shape.back()}, "rows"));
  HTPIPE_TRY(Value * matrix, call.reshape(weight, {weight->type.count() / shape.back(), shape.back()}, "matrix"));
  if (bias != nullptr) {
    HTPIPE_TRY(bias, call.reshape(bias, {bias->type.count()}, "bias"));
  }
  HTPIPE_TRY(Value * result, call.add("FullyConnected", {{"keep_dims", false}}, {rows, matrix, bias}, "product"));
  return call.reshape(result, meta->sizes);
}

/// outer, ger: a column times a row.
One outer(Call& call) {
  HTPIPE_TRY(const DType dtype, call.result_dtype());
  HTPIPE_TRY(Value * a, call.tensor("self"));
  HTPIPE_TRY(Value * b, call.tensor("vec2"));
  HTPIPE_TRY(a, call.cast(a, dtype, "a"));
  HTPIPE_TRY(b, call.cast(b, dtype, "b"));
  HTPIPE_TRY(a, call.reshape(a, {a->type.count(), 1}, "column"));
  HTPIPE_TRY(b, call.reshape(b, {1, b->type.count()}, "row"));
  return call.binary("multiply", a, b);
}

One einsum(Call& call) {
  HTPIPE_TRY(std::string equation, call.text("equation", ""));
  HTPIPE_TRY(const Values operands, call.tensors("tensors"));
  std::erase(equation, ' ');
  const std::size_t arrow = equation.find("->");
  const std::string inputs = equation.substr(0, arrow);
  std::vector<Term> terms;
  std::string dots;
  std::size_t begin = 0;
  for (Value* operand : operands) {
    const std::size_t comma = std::min(inputs.find(',', begin), inputs.size());
    if (begin > inputs.size()) return fail(Code::kUnsupportedForm, "einsum with more tensors than terms");
    HTPIPE_TRY(const std::string letters,
               letters_of(std::string_view(inputs).substr(begin, comma - begin), shape_of(operand).size(), dots));
    terms.push_back({operand, letters});
    begin = comma + 1;
  }
  if (terms.empty() || begin != inputs.size() + 1) return fail(Code::kUnsupportedForm, "einsum with other terms");
  std::string output;
  if (arrow != std::string::npos) {
    output = equation.substr(arrow + 2);
    if (const std::size_t at = output.find("..."); at != std::string::npos) output.replace(at, 3, dots);
  } else {
    std::map<char, int> count;
    for (const Term& term : terms) {
      for (const char letter : term.axes) ++count[letter];
    }
    output = dots;
    for (const auto& [letter, times] : count) {
      if (times == 1 && dots.find(letter) == std::string::npos) output += letter;
    }
  }
  Term result = terms.front();
  for (std::size_t i = 1; i < terms.size(); ++i) {
    std::string needed = output;
    for (std::size_t k = i + 1; k < terms.size(); ++k) needed += terms[k].axes;
    HTPIPE_TRY(result, contracted(call, result, terms[i], needed));
  }
  HTPIPE_TRY(result, summed(call, result, output));
  for (const char letter : output) {
    if (result.axes.find(letter) == std::string::npos) return fail(Code::kUnsupportedForm, "einsum with a new axis");
  }
  return ordered(call, result, output, "");
}

}  // namespace htpipe::pt2
