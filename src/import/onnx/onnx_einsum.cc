// Einsum by Transpose, Reshape, MatMul and ReduceSum, two operands at a time.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// Labels of axes: letters stand for themselves, the axes of an ellipsis are 0, 1, 2 … counted from its end.
using Labels = std::vector<char>;

struct Term {
  Value* value = nullptr;
  Labels labels;
};

bool has(const Labels& labels, char label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

tl::unexpected<Error> wrong_equation(const std::string& equation) {
  return fail(Code::kOnnxInvalid, fmt::format("the equation \"{}\" does not fit the inputs", equation));
}

/// "ij...": letters before and after the ellipsis.
struct Subscript {
  std::string before;
  std::string after;
  bool ellipsis = false;
};

Result<Subscript> parse_subscript(const std::string& text, const std::string& equation) {
  Subscript subscript;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 3, "...") == 0 && !subscript.ellipsis) {
      subscript.ellipsis = true;
      i += 2;
      continue;
    }
    const char letter = text[i];
    const bool is_letter = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
    if (!is_letter) return wrong_equation(equation);
    (subscript.ellipsis ? subscript.after : subscript.before).push_back(letter);
  }
  return subscript;
}

Labels labels_of(const Subscript& subscript, std::size_t ellipsis_axes) {
  Labels labels(subscript.before.begin(), subscript.before.end());
  for (std::size_t i = ellipsis_axes; i > 0; --i) labels.push_back(static_cast<char>(i - 1));
  labels.insert(labels.end(), subscript.after.begin(), subscript.after.end());
  return labels;
}

struct Equation {
  std::vector<Term> terms;
  Labels result;
};

Result<Equation> parse(const Call& call, std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const std::size_t arrow = text.find("->");
  const std::string left = text.substr(0, arrow);
  Equation equation;
  std::size_t begin = 0;
  std::size_t most_ellipsis = 0;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (begin > left.size()) return wrong_equation(text);
    const std::size_t comma = std::min(left.find(',', begin), left.size());
    HTPIPE_TRY(const Subscript subscript, parse_subscript(left.substr(begin, comma - begin), text));
    begin = comma + 1;
    HTPIPE_TRY(Value * value, call.input(i));
    const std::size_t letters = subscript.before.size() + subscript.after.size();
    const std::size_t rank = value->type.shape.size();
    if (letters > rank || (letters < rank && !subscript.ellipsis) || rank - letters > 32) return wrong_equation(text);
    most_ellipsis = std::max(most_ellipsis, rank - letters);
    equation.terms.push_back({value, labels_of(subscript, rank - letters)});
  }
  if (begin <= left.size() || equation.terms.empty()) return wrong_equation(text);
  if (arrow != std::string::npos) {
    HTPIPE_TRY(const Subscript subscript, parse_subscript(text.substr(arrow + 2), text));
    equation.result = labels_of(subscript, subscript.ellipsis ? most_ellipsis : 0);
  } else {
    // Without an arrow: the ellipsis, then every letter that stands once, in the order of the alphabet.
    std::map<char, int> counts;
    for (const Term& term : equation.terms) {
      for (const char label : term.labels) ++counts[label];
    }
    for (std::size_t i = most_ellipsis; i > 0; --i) equation.result.push_back(static_cast<char>(i - 1));
    for (const auto& [label, count] : counts) {
      if (label >= 'A' && count == 1) equation.result.push_back(label);
    }
  }
  for (std::size_t i = 0; i < equation.result.size(); ++i) {
    const char label = equation.result[i];
    const bool known = std::any_of(equation.terms.begin(), equation.terms.end(),
                                   [label](const Term& term) { return has(term.labels, label); });
    const bool twice = std::count(equation.result.begin(), equation.result.end(), label) > 1;
    if (!known || twice) return wrong_equation(text);
  }
  return equation;
}

class Contraction {
 public:
  Contraction(Call& call, const Labels& result) : call_(call), result_(result) {}

  /// Axes that a term has twice become one: the diagonal.
  Status take_diagonals(Term& term) {
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      for (std::size_t j = i + 1; j < term.labels.size();) {
        if (term.labels[j] != term.labels[i]) {
          ++j;
          continue;
        }
        HTPIPE_CHECK_OK(take_diagonal(term, i, j));
      }
    }
    return {};
  }

  /// Sums over the labels that neither the result nor one of `others` has.
  Status sum_lonely(Term& term, const std::vector<Term>& others) {
    IntList axes;
    Labels kept;
    for (std::size_t i = 0; i < term.labels.size(); ++i) {
      if (is_needed(term.labels[i], others)) {
        kept.push_back(term.labels[i]);
      } else {
        axes.push_back(static_cast<std::int64_t>(i));
      }
    }
    if (axes.empty()) return {};
    HTPIPE_TRY(term.value, reduce(call_, "ReduceSum", term.value, axes, false, "sum"));
    term.labels = kept;
    return {};
  }

  Result<Term> multiply(const Term& a, const Term& b, const std::vector<Term>& others) {
    Labels batch, summed, left, right;
    for (const char label : a.labels) {
      if (!has(b.labels, label)) {
        left.push_back(label);
      } else if (is_needed(label, others)) {
        batch.push_back(label);
      } else {
        summed.push_back(label);
      }
    }
    for (const char label : b.labels) {
      if (!has(a.labels, label)) right.push_back(label);
    }
    Term result;
    result.labels = batch;
    result.labels.insert(result.labels.end(), left.begin(), left.end());
    result.labels.insert(result.labels.end(), right.begin(), right.end());
    if (summed.empty()) return elementwise(a, b, batch, left, right, std::move(result));
    for (const char label : summed) {
      if (size_of_label(a, label) != size_of_label(b, label)) {
        return fail(Code::kShapeMismatch, fmt::format("the sizes along {} differ", label));
      }
    }
    HTPIPE_TRY(Value * rows, arranged(a, batch, {left, summed}, "left"));
    HTPIPE_TRY(Value * columns, arranged(b, batch, {summed, right}, "right"));
    HTPIPE_TRY(Value * product, mat_mul(call_, rows, columns, false, false, "product"));
    Shape shape(product->type.shape.begin(), product->type.shape.end() - 2);
    for (const char label : left) shape.push_back(size_of_label(a, label));
    for (const char label : right) shape.push_back(size_of_label(b, label));
    HTPIPE_TRY(result.value, call_.reshape(product, shape, "apart"));
    return result;
  }

  Result<Value*> in_order(const Term& term) {
    IntList perm;
    for (const char label : result_) perm.push_back(axis_of(term, label));
    return call_.transpose(term.value, perm, "");
  }

 private:
  [[nodiscard]] bool is_needed(char label, const std::vector<Term>& others) const {
    return has(result_, label) ||
           std::any_of(others.begin(), others.end(), [label](const Term& term) { return has(term.labels, label); });
  }
  static std::int64_t axis_of(const Term& term, char label) {
    return std::find(term.labels.begin(), term.labels.end(), label) - term.labels.begin();
  }
  static std::int64_t size_of_label(const Term& term, char label) {
    return term.value->type.shape[static_cast<std::size_t>(axis_of(term, label))];
  }

  Status take_diagonal(Term& term, std::size_t i, std::size_t j) {
    const Shape& shape = term.value->type.shape;
    const std::int64_t size = shape[i];
    if (shape[j] != size) return fail(Code::kShapeMismatch, "a diagonal of axes with different sizes");
    // Both axes behind the others, as one; every (size + 1)-th element of it lies on the diagonal.
    IntList perm;
    Shape joined;
    Labels labels;
    for (std::size_t axis = 0; axis < shape.size(); ++axis) {
      if (axis == i || axis == j) continue;
      perm.push_back(static_cast<std::int64_t>(axis));
      joined.push_back(shape[axis]);
      labels.push_back(term.labels[axis]);
    }
    labels.push_back(term.labels[i]);
    perm.push_back(static_cast<std::int64_t>(i));
    perm.push_back(static_cast<std::int64_t>(j));
    joined.push_back(size * size);
    HTPIPE_TRY(Value * value, call_.transpose(term.value, perm, "square"));
    HTPIPE_TRY(value, call_.reshape(value, joined, "line"));
    IntList strides(joined.size(), 1);
    strides.back() = size + 1;
    HTPIPE_TRY(value,
               call_.add("StridedSlice", {{"begin", IntList(joined.size(), 0)}, {"end", joined}, {"strides", strides}},
                         {value}, "diagonal"));
    // The axis stands where the first of the two stood, so that the caller's walk goes on.
    IntList back = count_up(0, static_cast<std::int64_t>(joined.size()) - 1);
    back.insert(back.begin() + static_cast<std::ptrdiff_t>(i), static_cast<std::int64_t>(joined.size()) - 1);
    HTPIPE_TRY(term.value, call_.transpose(value, back, "diagonal_back"));
    labels.pop_back();
    labels.insert(labels.begin() + static_cast<std::ptrdiff_t>(i), term.labels[i]);
    term.labels = labels;
    return {};
  }

  /// [batch..., group, group]: each group of labels joined to one axis.
  Result<Value*> arranged(const Term& term, const Labels& batch, const std::vector<Labels>& groups,
                          std::string_view name) {
    IntList perm;
    Shape shape;
    for (const char label : batch) {
      perm.push_back(axis_of(term, label));
      shape.push_back(size_of_label(term, label));
    }
    for (const Labels& group : groups) {
      shape.push_back(1);
      for (const char label : group) {
        perm.push_back(axis_of(term, label));
        shape.back() *= size_of_label(term, label);
      }
    }
    HTPIPE_TRY(Value * moved, call_.transpose(term.value, perm, fmt::format("{}_moved", name)));
    return call_.reshape(moved, shape, name);
  }

  /// Nothing is summed: both operands with the axes of the result, those of the other one of size 1.
  Result<Term> elementwise(const Term& a, const Term& b, const Labels& batch, const Labels& left, const Labels& right,
                           Term result) {
    const auto aligned = [&](const Term& term, const Labels& own, bool own_first, std::size_t others,
                             std::string_view name) -> Result<Value*> {
      IntList perm;
      Shape shape;
      for (const char label : batch) {
        perm.push_back(axis_of(term, label));
        shape.push_back(size_of_label(term, label));
      }
      if (!own_first) shape.insert(shape.end(), others, 1);
      for (const char label : own) {
        perm.push_back(axis_of(term, label));
        shape.push_back(size_of_label(term, label));
      }
      if (own_first) shape.insert(shape.end(), others, 1);
      HTPIPE_TRY(Value * moved, call_.transpose(term.value, perm, fmt::format("{}_moved", name)));
      return call_.reshape(moved, shape, name);
    };
    HTPIPE_TRY(Value * x, aligned(a, left, true, right.size(), "left"));
    HTPIPE_TRY(Value * y, aligned(b, right, false, left.size(), "right"));
    HTPIPE_TRY(result.value, call_.binary("multiply", x, y, "product"));
    return result;
  }

  Call& call_;
  const Labels& result_;
};

}  // namespace

Result<Values> einsum(Call& call) {
  HTPIPE_TRY(const std::string text, call.text("equation"));
  HTPIPE_TRY(const Equation equation, parse(call, text));
  Contraction contraction(call, equation.result);
  std::vector<Term> terms = equation.terms;
  for (Term& term : terms) {
    HTPIPE_CHECK_OK(contraction.take_diagonals(term));
  }
  for (std::size_t i = 0; i < terms.size(); ++i) {
    std::vector<Term> others = terms;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    HTPIPE_CHECK_OK(contraction.sum_lonely(terms[i], others));
  }
  while (terms.size() > 1) {
    const std::vector<Term> others(terms.begin() + 2, terms.end());
    HTPIPE_TRY(Term product, contraction.multiply(terms[0], terms[1], others));
    terms.erase(terms.begin());
    terms.front() = std::move(product);
  }
  return one(contraction.in_order(terms.front()));
}

}  // namespace htpipe::onnx_import::map
