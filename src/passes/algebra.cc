#include "passes/algebra.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "passes/rewrite.h"

namespace htpipe::passes::algebra {
namespace {

/// Nodes that one form takes apart at most, and how deep. What is beyond is a factor by itself.
constexpr int kBudget = 64;
constexpr int kDepth = 24;

enum class Kind { kNone, kAdd, kSubtract, kMultiply, kDivide, kNegate, kPower, kBroadcast };

/// How a node enters sums and products. For kPower the exponent of operand 0.
struct Form {
  Kind kind = Kind::kNone;
  double exponent = 1;
};

/// True for a Tile that repeats axes of one element, which the other operand of a sum or product does as well.
bool only_broadcasts(const Node& node) {
  const Value* operand = node.operands[0];
  const Shape& from = operand->type.shape;
  const Shape& to = node.result()->type.shape;
  if (from.empty() || from.size() != to.size()) return false;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (from[i] != to[i] && from[i] != 1) return false;
  }
  return true;
}

Form form_of(const Node& node) {
  if (node.is("Tile")) return is_plain_float(node) && only_broadcasts(node) ? Form{Kind::kBroadcast} : Form{};
  const bool binary = node.is("ElementWiseBinary");
  if ((!binary && !node.is("ElementWiseUnary")) || !is_plain_float(node)) return {};
  const std::string_view operation = node.attributes.text("operation");
  if (!binary) {
    if (operation == "neg") return {Kind::kNegate};
    if (operation == "reciprocal") return {Kind::kPower, -1};
    if (operation == "sqrt") return {Kind::kPower, 0.5};
    if (operation == "rsqrt") return {Kind::kPower, -0.5};
    return {};
  }
  if (operation == "add") return {Kind::kAdd};
  if (operation == "subtract") return {Kind::kSubtract};
  if (operation == "multiply") return {Kind::kMultiply};
  if (operation == "divide") return {Kind::kDivide};
  if (operation == "power") {
    if (const auto exponent = scalar_of(node.operands[1])) return {Kind::kPower, *exponent};
  }
  return {};
}

bool has_activation(const Node& node) {
  const Attribute* activation = node.attributes.find("activation");
  return activation != nullptr && std::get<std::string>(*activation) != "none";
}

bool whole(double exponent) { return exponent == std::rint(exponent); }
bool even(double exponent) { return whole(exponent / 2); }

bool has_power(double base, double exponent) { return base > 0 || (base < 0 ? whole(exponent) : exponent > 0); }

/// The scalar operand of a sum or product that leaves the shape of the other one alone: its index.
std::optional<std::size_t> scalar_operand(const Node& node) {
  for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
    if (scalar_of(node.operands[i]) && node.operands[1 - i]->type.shape == node.result()->type.shape) return i;
  }
  return std::nullopt;
}

/// A product with a scalar (or a sign): cheap, and looked through whoever else uses it.
bool only_scales(const Node& node, const Form& form) {
  if (form.kind == Kind::kNegate) return true;
  if (form.kind == Kind::kMultiply) return scalar_operand(node).has_value();
  return form.kind == Kind::kDivide && scalar_operand(node) == 1;
}

bool is_sum(Kind kind) { return kind == Kind::kAdd || kind == Kind::kSubtract; }

class Builder {
 public:
  explicit Builder(const Graph& graph) : graph_(graph) {}

  Product product(Value* value, bool open) {
    Product result;
    multiply(result, value, 1, open, 0);
    return result;
  }

  /// Of a node, whatever its activation is.
  Product product_of_node(Node& node) {
    Product result;
    take_apart(result, node, form_of(node), 1, 0);
    return result;
  }

  std::shared_ptr<const Sum> sum(Value* value, bool open) {
    const Node* node = openable(value, open);
    if (node == nullptr || !is_sum(form_of(*node).kind)) return nullptr;
    return sum_of_node(*node);
  }

 private:
  /// The producer of a value that may be taken apart.
  const Node* openable(const Value* value, bool open) const {
    const Node* node = value->producer;
    if (node == nullptr || has_activation(*node)) return nullptr;
    const Form form = form_of(*node);
    if (form.kind == Kind::kNone) return nullptr;
    const bool own = value->users.size() == 1 && !graph_.is_output(value);
    return open || own || only_scales(*node, form) ? node : nullptr;
  }

  std::shared_ptr<const Sum> sum_of_node(const Node& node) {
    auto result = std::make_shared<Sum>();
    take_apart(*result, node, 1, 0);
    return result;
  }

  void leaf(Product& to, Value* value, double exponent) {
    to.spans.push_back({value, to.factors.size(), to.factors.size() + 1, exponent, 1});
    to.factors.push_back({value, nullptr, exponent});
  }

  /// to *= value ^ exponent.
  void multiply(Product& to, Value* value, double exponent, bool open, int depth) {
    if (const auto scalar = scalar_of(value); scalar && has_power(*scalar, exponent)) {
      to.scalar *= std::pow(*scalar, exponent);
      return;
    }
    const Node* node = depth < kDepth && budget_ > 0 ? openable(value, open) : nullptr;
    if (node == nullptr) return leaf(to, value, exponent);
    const Form form = form_of(*node);
    // The root of a product is the product of the roots only where nothing is negative.
    const bool splits = whole(exponent) || (only_scales(*node, form) && scale_of(*node) > 0);
    const bool combines = whole(exponent) || !even(form.exponent);
    if (form.kind == Kind::kPower ? !combines : form.kind != Kind::kBroadcast && !splits) {
      return leaf(to, value, exponent);
    }
    --budget_;
    const std::size_t begin = to.factors.size();
    const double before = to.scalar;
    to.scalar = 1;
    take_apart(to, *node, form, exponent, depth);
    if (to.factors.size() != begin + 1 || to.spans.empty() || to.spans.back().value != value) {
      to.spans.push_back({value, begin, to.factors.size(), exponent, to.scalar});
    }
    to.scalar *= before;
  }

  /// The factor that a node which only scales multiplies with.
  static double scale_of(const Node& node) {
    if (node.is("ElementWiseUnary")) return -1;
    return *scalar_of(node.operands[*scalar_operand(node)]);
  }

  void take_apart(Product& to, const Node& node, const Form& form, double exponent, int depth) {
    switch (form.kind) {
      case Kind::kMultiply:
        multiply(to, node.operands[0], exponent, false, depth + 1);
        multiply(to, node.operands[1], exponent, false, depth + 1);
        return;
      case Kind::kDivide:
        multiply(to, node.operands[0], exponent, false, depth + 1);
        multiply(to, node.operands[1], -exponent, false, depth + 1);
        return;
      case Kind::kNegate:
        to.scalar *= std::pow(-1, exponent);
        return multiply(to, node.operands[0], exponent, false, depth + 1);
      case Kind::kPower:
        return multiply(to, node.operands[0], exponent * form.exponent, false, depth + 1);
      case Kind::kBroadcast:
        return multiply(to, node.operands[0], exponent, false, depth + 1);
      case Kind::kAdd:
      case Kind::kSubtract:
        return factor_out(to, node, exponent);
      case Kind::kNone:
        return;
    }
  }

  /// to *= sum ^ exponent, with the factors that all its terms share as factors of `to`.
  void factor_out(Product& to, const Node& node, double exponent) {
    auto sum = std::make_shared<Sum>();
    take_apart(*sum, node, 1, 0);
    Value* value = node.result();
    if (sum->constant == 0 && sum->terms.size() > 1 && whole(exponent)) {
      for (const auto& [shared, power] : common(*sum)) {
        leaf(to, shared, power * exponent);
        for (Product& term : sum->terms) reduce(term, shared, power);
        sum->spans.clear();
        value = nullptr;
      }
    }
    if (value == nullptr) {
      std::vector<Product> rest;
      for (Product& term : sum->terms) {
        if (term.factors.empty()) {
          sum->constant += term.scalar;
        } else {
          rest.push_back(std::move(term));
        }
      }
      sum->terms = std::move(rest);
      if (sum->terms.empty()) {
        to.scalar *= std::pow(sum->constant, exponent);
        return;
      }
      to.factors.push_back({nullptr, std::move(sum), exponent});
      return;
    }
    to.spans.push_back({value, to.factors.size(), to.factors.size() + 1, exponent, 1});
    to.factors.push_back({value, std::move(sum), exponent});
  }

  static double total_exponent(const Product& term, const Value* value) {
    double total = 0;
    for (const Factor& factor : term.factors) total += factor.value == value ? factor.exponent : 0;
    return total;
  }

  /// The values that are factors of every term, with the smallest exponent.
  static std::vector<std::pair<Value*, double>> common(const Sum& sum) {
    std::vector<std::pair<Value*, double>> found;
    for (const Factor& factor : sum.terms.front().factors) {
      const auto known = [&factor](const auto& entry) { return entry.first == factor.value; };
      if (factor.value == nullptr || std::any_of(found.begin(), found.end(), known)) continue;
      double power = total_exponent(sum.terms.front(), factor.value);
      for (const Product& term : sum.terms) {
        const double other = total_exponent(term, factor.value);
        power = (other > 0) != (power > 0) ? 0 : std::fabs(other) < std::fabs(power) ? other : power;
      }
      if (power != 0) found.emplace_back(factor.value, power);
    }
    return found;
  }

  /// term /= value ^ power.
  static void reduce(Product& term, const Value* value, double power) {
    std::vector<Factor> kept;
    for (Factor& factor : term.factors) {
      if (factor.value == value && power != 0) {
        const double taken = std::fabs(power) < std::fabs(factor.exponent) ? power : factor.exponent;
        factor.exponent -= taken;
        power -= taken;
      }
      if (factor.exponent != 0) kept.push_back(std::move(factor));
    }
    term.factors = std::move(kept);
    term.spans.clear();
    for (std::size_t i = 0; i < term.factors.size(); ++i) {
      if (term.factors[i].value == nullptr) continue;
      term.spans.push_back({term.factors[i].value, i, i + 1, term.factors[i].exponent, 1});
    }
  }

  /// to += scale * value.
  void add(Sum& to, Value* value, double scale, int depth) {
    if (const auto scalar = scalar_of(value)) {
      to.constant += scale * *scalar;
      return;
    }
    const Node* node = depth < kDepth && budget_ > 0 ? openable(value, false) : nullptr;
    const Form form = node == nullptr ? Form{} : form_of(*node);
    const bool scales = node != nullptr && only_scales(*node, form);
    // Behind a scalar there may be a sum; what is no sum becomes one term.
    const Node* inner = scales ? openable(scaled_operand(*node), false) : nullptr;
    if (is_sum(form.kind) || form.kind == Kind::kBroadcast ||
        (inner != nullptr && (is_sum(form_of(*inner).kind) || only_scales(*inner, form_of(*inner))))) {
      --budget_;
      const std::size_t begin = to.terms.size();
      const double before = to.constant;
      to.constant = 0;
      if (scales) {
        add(to, scaled_operand(*node), scale * scale_of_term(*node), depth + 1);
      } else {
        take_apart(to, *node, scale, depth);
      }
      to.spans.push_back({value, begin, to.terms.size(), scale, to.constant});
      to.constant += before;
      return;
    }
    Product term;
    multiply(term, value, 1, false, depth + 1);
    term.scalar *= scale;
    to.terms.push_back(std::move(term));
  }

  static Value* scaled_operand(const Node& node) {
    return node.is("ElementWiseUnary") ? node.operands[0] : node.operands[1 - *scalar_operand(node)];
  }
  static double scale_of_term(const Node& node) {
    const double scale = scale_of(node);
    return form_of(node).kind == Kind::kDivide ? 1 / scale : scale;
  }

  void take_apart(Sum& to, const Node& node, double scale, int depth) {
    add(to, node.operands[0], scale, depth + 1);
    const Kind kind = form_of(node).kind;
    if (kind != Kind::kBroadcast) add(to, node.operands[1], kind == Kind::kSubtract ? -scale : scale, depth + 1);
  }

  const Graph& graph_;
  int budget_ = kBudget;
};

}  // namespace

Product product_of(const Graph& graph, Value* value, bool open) { return Builder(graph).product(value, open); }

bool looked_through(const Node& node) { return !has_activation(node) && only_scales(node, form_of(node)); }

bool has_many_spellings(const Node& node) {
  if (node.is("ReduceMean") || form_of(node).kind != Kind::kNone) return true;
  const Attribute* operation = node.attributes.find("operation");
  if (operation == nullptr) return false;
  const std::string& name = std::get<std::string>(*operation);
  return name == "relu" || name == "relu_min_max" || name == "maximum" || name == "minimum";
}

std::shared_ptr<const Sum> sum_of(const Graph& graph, Value* value, bool open) {
  return Builder(graph).sum(value, open);
}

std::optional<Product> without_activation(const Graph& graph, Node& node) {
  if (form_of(node).kind == Kind::kNone) return std::nullopt;
  return Builder(graph).product_of_node(node);
}

std::optional<double> scalar_of(const Value* value) {
  if (value == nullptr || !value->is_constant() || value->type.dtype != DType::kF32 || value->type.encoding ||
      value->type.count() != 1) {
    return std::nullopt;
  }
  return static_cast<double>(value->constant.data<float>().front());
}

bool near(double a, double b) {
  constexpr double kTolerance = 2e-6;
  return std::fabs(a - b) <= kTolerance * std::max(std::fabs(a), std::fabs(b)) || a == b;
}

}  // namespace htpipe::passes::algebra
