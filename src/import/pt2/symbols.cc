// A reader of sympy expressions in both of their spellings; values are computed in double, exact for every real size.
#include "import/pt2/symbols.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <vector>

namespace htpipe::pt2 {
namespace {

constexpr int kDeepest = 200;
constexpr double kLargest = 9007199254740992.0;  // 2^53

struct Expression {
  std::string name;  ///< operator ("+", "FloorDiv"), symbol, or empty for a number
  double number = 0.0;
  bool symbol = false;
  std::vector<Expression> operands;
};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::optional<Expression> parse() {
    Expression result = sum(0);
    skip();
    if (bad_ || at_ != text_.size()) return std::nullopt;
    return result;
  }

 private:
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  static Expression binary(std::string_view name, Expression a, Expression b) {
    Expression result;
    result.name = name;
    result.operands.push_back(std::move(a));
    result.operands.push_back(std::move(b));
    return result;
  }
  Expression sum(int depth) {
    if (depth > kDeepest) bad_ = true;
    if (bad_) return {};
    Expression left = product(depth);
    while (!bad_) {
      if (take("+")) {
        left = binary("Add", std::move(left), product(depth));
      } else if (take("-")) {
        left = binary("-", std::move(left), product(depth));
      } else {
        break;
      }
    }
    return left;
  }
  Expression product(int depth) {
    Expression left = power(depth);
    while (!bad_) {
      if (text_.substr(std::min(at_, text_.size()), 2) == "**") break;
      if (take("*")) {
        left = binary("Mul", std::move(left), power(depth));
      } else if (take("//")) {
        left = binary("FloorDiv", std::move(left), power(depth));
      } else if (take("/")) {
        left = binary("/", std::move(left), power(depth));
      } else if (take("%")) {
        left = binary("Mod", std::move(left), power(depth));
      } else {
        break;
      }
    }
    return left;
  }
  Expression power(int depth) {
    if (take("-")) {
      Expression zero;
      if (depth > kDeepest) bad_ = true;
      return bad_ ? zero : binary("-", zero, power(depth + 1));
    }
    Expression base = atom(depth);
    if (take("**")) return binary("Pow", std::move(base), bad_ || depth > kDeepest ? Expression{} : power(depth + 1));
    return base;
  }
  Expression atom(int depth) {
    skip();
    Expression result;
    if (take("(")) {
      result = sum(depth + 1);
      bad_ = bad_ || !take(")");
      return result;
    }
    if (at_ >= text_.size()) {
      bad_ = true;
      return result;
    }
    if (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), result.number);
      bad_ = bad_ || error != std::errc{};
      at_ = static_cast<std::size_t>(end - text_.data());
      return result;
    }
    result.name = identifier();
    if (result.name.empty()) bad_ = true;
    result.symbol = true;
    if (bad_ || !take("(")) return result;
    result.symbol = false;
    arguments(result, depth);
    return result;
  }
  std::string identifier() {
    const std::size_t begin = at_;
    while (at_ < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_' || text_[at_] == '.')) {
      ++at_;
    }
    const std::string_view word = text_.substr(begin, at_ - begin);
    const std::size_t dot = word.rfind('.');
    return std::string(dot == std::string_view::npos ? word : word.substr(dot + 1));
  }
  /// Behind "Name(": operands; a quoted word is the symbol's name, keyword arguments say nothing of the value.
  void arguments(Expression& result, int depth) {
    while (!bad_ && !take(")")) {
      skip();
      if (take("'")) {
        const std::size_t end = text_.find('\'', at_);
        if (end == std::string_view::npos) {
          bad_ = true;
          return;
        }
        result.name = text_.substr(at_, end - at_);
        result.symbol = true;
        at_ = end + 1;
      } else {
        Expression operand = sum(depth + 1);
        if (operand.symbol && take("=")) {
          identifier();
        } else {
          result.operands.push_back(std::move(operand));
        }
      }
      if (!take(",") && text_.substr(std::min(at_, text_.size()), 1) != ")") bad_ = true;
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool bad_ = false;
};

using Number = std::optional<double>;

class Evaluator {
 public:
  Evaluator(const SymbolValues& symbols, std::set<std::string>& missing) : symbols_(symbols), missing_(missing) {}

  Number value(const Expression& e) {
    if (e.symbol) {
      const auto at = symbols_.find(e.name);
      if (at != symbols_.end()) return static_cast<double>(at->second);
      missing_.insert(e.name);
      return std::nullopt;
    }
    if (e.name.empty()) return e.number;
    std::vector<double> v;
    bool known = true;
    for (const Expression& operand : e.operands) {
      const Number number = value(operand);
      known = known && number;
      v.push_back(number.value_or(0.0));
    }
    if (!known || v.empty()) return std::nullopt;
    return apply(e.name, v);
  }

 private:
  static Number apply(std::string_view name, const std::vector<double>& v) {
    if (name == "Add" || name == "Mul" || name == "Max" || name == "Min") {
      double result = v[0];
      for (std::size_t i = 1; i < v.size(); ++i) {
        result = name == "Add"   ? result + v[i]
                 : name == "Mul" ? result * v[i]
                 : name == "Max" ? std::max(result, v[i])
                                 : std::min(result, v[i]);
      }
      return result;
    }
    if (v.size() == 1) {
      if (name == "Integer" || name == "Float" || name == "Identity" || name == "ToFloat") return v[0];
      if (name == "floor" || name == "FloorToInt") return std::floor(v[0]);
      if (name == "ceiling" || name == "CeilToInt") return std::ceil(v[0]);
      if (name == "TruncToInt") return std::trunc(v[0]);
      if (name == "RoundToInt") return std::nearbyint(v[0]);
      if (name == "Abs") return std::abs(v[0]);
      return std::nullopt;
    }
    if (v.size() != 2) return std::nullopt;
    if (name == "-") return v[0] - v[1];
    if (name == "Pow" || name == "PowByNatural") return std::pow(v[0], v[1]);
    if (v[1] == 0.0) return std::nullopt;
    if (name == "/" || name == "Rational" || name == "IntTrueDiv" || name == "FloatTrueDiv" || name == "CleanDiv") {
      return v[0] / v[1];
    }
    if (name == "FloorDiv") return std::floor(v[0] / v[1]);
    if (name == "CeilDiv") return std::ceil(v[0] / v[1]);
    if (name == "Mod" || name == "PythonMod") return v[0] - v[1] * std::floor(v[0] / v[1]);
    return std::nullopt;
  }

  const SymbolValues& symbols_;
  std::set<std::string>& missing_;
};

std::string print(const Expression& e) {
  if (e.symbol) return e.name;
  if (e.name.empty()) return fmt::format("{:.0f}", e.number);
  if (e.name == "Integer" && e.operands.size() == 1) return print(e.operands[0]);
  const bool sum = e.name == "Add";
  const bool infix = sum || e.name == "Mul" || e.name == "-" || e.name == "FloorDiv";
  if (e.name == "-" && e.operands[0].name.empty() && !e.operands[0].symbol && e.operands[0].number == 0.0) {
    return "-" + print(e.operands[1]);
  }
  const std::string between = sum ? " + " : e.name == "Mul" ? "*" : e.name == "-" ? " - " : infix ? "//" : ", ";
  std::string text;
  for (const Expression& operand : e.operands) {
    const bool bracket = infix && !sum && (operand.name == "Add" || operand.name == "-" || operand.name == "FloorDiv");
    text +=
        fmt::format("{}{}{}{}", text.empty() ? "" : between, bracket ? "(" : "", print(operand), bracket ? ")" : "");
  }
  return infix ? text : fmt::format("{}({})", e.name, text);
}

}  // namespace

std::optional<double> evaluate_real(std::string_view expression, const SymbolValues& symbols,
                                    std::set<std::string>& missing) {
  const auto parsed = Parser(expression).parse();
  return parsed ? Evaluator(symbols, missing).value(*parsed) : std::nullopt;
}

std::optional<std::int64_t> evaluate(std::string_view expression, const SymbolValues& symbols,
                                     std::set<std::string>& missing) {
  const Number value = evaluate_real(expression, symbols, missing);
  if (!value || !(std::abs(*value) <= kLargest) || std::floor(*value) != *value) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<std::pair<std::string, std::int64_t>> solve(std::string_view expression, std::int64_t value,
                                                          const SymbolValues& symbols) {
  std::set<std::string> missing;
  evaluate(expression, symbols, missing);
  if (missing.size() != 1) return std::nullopt;
  const std::string symbol = *missing.begin();
  SymbolValues known = symbols;
  const auto at = [&](std::int64_t x) {
    known[symbol] = x;
    std::set<std::string> none;
    return evaluate(expression, known, none);
  };
  // Linear: f(x) = f(0) + x * (f(1) - f(0)); checked at the answer.
  const auto f0 = at(0);
  const auto f1 = at(1);
  if (!f0 || !f1 || *f1 == *f0 || (value - *f0) % (*f1 - *f0) != 0) return std::nullopt;
  const std::int64_t answer = (value - *f0) / (*f1 - *f0);
  if (answer < 0 || at(answer) != value) return std::nullopt;
  return std::pair{symbol, answer};
}

std::string readable(std::string_view expression) {
  const auto parsed = Parser(expression.substr(0, 4000)).parse();
  return parsed ? print(*parsed) : std::string(expression.substr(0, 200));
}

bool is_data_dependent(std::string_view symbol) {
  return symbol.size() > 1 && symbol[0] == 'u' &&
         std::all_of(symbol.begin() + 1, symbol.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace htpipe::pt2
