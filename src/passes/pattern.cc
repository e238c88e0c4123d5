// Matching: a search that binds the values of the pattern one after the other and goes back where it was wrong.
// Every function takes what is to be matched next as a continuation, which gets the factor by which the graph's value is
// larger than the pattern's.
#include "passes/pattern.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "base/check.h"
#include "passes/pattern_form.h"
#include "passes/rewrite.h"

namespace htpipe::passes {

using algebra::Factor;
using algebra::near;
using algebra::Product;
using algebra::Sum;

class Matcher {
 public:
  Matcher(const Graph& graph, const PatternForm& form)
      : graph_(graph),
        form_(form),
        values_(form.values.size(), nullptr),
        numbers_(form.values.size(), std::numeric_limits<double>::quiet_NaN()) {}

  std::optional<Match> run(std::shared_ptr<const PatternForm> form, Node& last) {
    const PatternValue& root = *form_.last;
    if (is_quantised(last)) return std::nullopt;
    std::vector<Node*> parts;
    const auto finish = [&](double factor) { return near(factor, 1) && collect(last, parts); };
    if (!root_matches(root, last, finish)) return std::nullopt;
    Match match;
    match.parts = std::move(parts);
    match.form_ = std::move(form);
    match.values_ = values_;
    match.numbers_ = numbers_;
    return match;
  }

 private:
  using Next = std::function<bool(double)>;
  using Mask = std::uint64_t;

  static Mask bit(std::size_t i) { return Mask{1} << i; }
  static Mask bits(std::size_t begin, std::size_t end) { return end >= 64 ? 0 : (bit(end) - 1) & ~(bit(begin) - 1); }

  /// The pattern value that a product consists of, and nothing else; null otherwise.
  const PatternValue* single(const Product& product) const {
    if (product.scalar != 1 || product.factors.size() != 1 || product.factors.front().exponent != 1) return nullptr;
    const Factor& factor = product.factors.front();
    return factor.sum != nullptr ? nullptr : &form_.of(factor.value);
  }

  bool root_matches(const PatternValue& root, Node& last, const Next& next) {
    if (single(root.form) == &root) return maker_matches(root, last.result(), next, true);
    if (!algebra::has_many_spellings(last)) return false;
    const Product given = algebra::product_of(graph_, last.result(), true);
    return product(root.form, given, next);
  }

  bool value(const Product& wanted, Value* given, const Next& next) {
    if (given == nullptr) return false;
    const PatternValue* whole = single(wanted);
    if (whole != nullptr && atom(*whole, given, next)) return true;
    const Product form = algebra::product_of(graph_, given, false);
    if (form.factors.size() == 1 && form.scalar == 1 && form.factors.front().value == given && whole != nullptr) {
      return false;
    }
    return product(wanted, form, next);
  }

  /// A pattern's value against a value as it stands.
  bool atom(const PatternValue& wanted, Value* given, const Next& next) {
    Value*& bound = values_[wanted.index];
    if (bound != nullptr) return bound == given && next(1);
    if (wanted.kind == PatternKind::kNumber || wanted.kind == PatternKind::kScalar) return false;
    const bool constant = given->is_constant();
    if (constant ? wanted.kind != PatternKind::kConstant && wanted.kind != PatternKind::kAny
                 : wanted.kind == PatternKind::kConstant) {
      return false;
    }
    bound = given;
    const bool found = wanted.maker == nullptr ? next(1) : maker_matches(wanted, given, next, false);
    if (!found) bound = nullptr;
    return found;
  }

  /// The definition of an inner value that is bound to `given`.
  bool maker_matches(const PatternValue& wanted, Value* given, const Next& next, bool root) {
    const PatternNode& maker = *wanted.maker;
    if (root) values_[wanted.index] = given;
    if (single(wanted.form) != &wanted) {
      // A value that stands for itself within a sum or product: another sum or product.
      const Product form = algebra::product_of(graph_, given, true);
      const bool once = wanted.value.users.size() < 2;
      return product(wanted.form, form,
                     [&](double factor) { return once ? next(factor) : near(factor, 1) && next(1); });
    }
    if (operation(wanted, given, next)) return true;
    if (!maker.optional) return false;
    return value(wanted.operands.front(), given, next);
  }

  bool product(const Product& wanted, const Product& given, const Next& next) {
    if (given.factors.size() >= 60 || wanted.factors.size() > given.factors.size() + numbers_of(wanted)) return false;
    return factors(wanted, order(wanted), 0, given, 0, given.scalar, next);
  }

  std::size_t numbers_of(const Product& wanted) const {
    return static_cast<std::size_t>(std::count_if(wanted.factors.begin(), wanted.factors.end(),
                                                  [this](const Factor& factor) { return is_number(factor); }));
  }
  bool is_number(const Factor& factor) const {
    return factor.sum == nullptr && form_.of(factor.value).kind == PatternKind::kNumber;
  }
  /// Sums and operators first, then what is bound, then what is free; numbers take what is left.
  int rank(const Factor& factor) const {
    if (factor.sum != nullptr) return 0;
    const PatternValue& value = form_.of(factor.value);
    if (value.kind == PatternKind::kNumber) return 4;
    if (values_[value.index] != nullptr) return 0;
    if (value.maker != nullptr) return 1;
    return value.kind == PatternKind::kConstant ? 2 : 3;
  }
  std::vector<const Factor*> order(const Product& wanted) const {
    std::vector<const Factor*> sorted;
    for (const Factor& factor : wanted.factors) sorted.push_back(&factor);
    std::stable_sort(sorted.begin(), sorted.end(),
                     [this](const Factor* a, const Factor* b) { return rank(*a) < rank(*b); });
    return sorted;
  }

  bool factors(const Product& wanted, const std::vector<const Factor*>& sorted, std::size_t i, const Product& given,
               Mask used, double scalar, const Next& next) {
    if (i == sorted.size() || is_number(*sorted[i])) {
      if (used != bits(0, given.factors.size())) return false;
      return take_numbers(wanted, sorted, i, scalar, next);
    }
    const Factor& factor = *sorted[i];
    const auto go_on = [&](Mask taken, double rest) {
      return factors(wanted, sorted, i + 1, given, used | taken, rest, next);
    };
    if (factor.sum == nullptr) {
      const PatternValue& value = form_.of(factor.value);
      for (const algebra::ProductSpan& span : given.spans) {
        const Mask taken = bits(span.begin, span.end);
        if ((used & taken) != 0 || span.exponent != factor.exponent) continue;
        const auto step = [&](double scale) {
          return has_power(scale, factor.exponent) &&
                 go_on(taken, scalar / span.scalar * std::pow(scale, factor.exponent));
        };
        if (atom(value, span.value, step)) return true;
      }
      return repeated(value, factor.exponent, given, used, [&](Mask taken) { return go_on(taken, scalar); });
    }
    for (std::size_t j = 0; j < given.factors.size(); ++j) {
      const Factor& candidate = given.factors[j];
      if ((used & bit(j)) != 0 || candidate.exponent != factor.exponent) continue;
      const auto step = [&](double scale) {
        return has_power(scale, factor.exponent) && go_on(bit(j), scalar * std::pow(scale, factor.exponent));
      };
      if (sum(*factor.sum, candidate, step)) return true;
    }
    return false;
  }

  static bool has_power(double base, double exponent) {
    return base > 0 || (base < 0 && exponent == std::rint(exponent));
  }

  /// A power that the graph has as several factors of the same value.
  bool repeated(const PatternValue& wanted, double exponent, const Product& given, Mask used,
                const std::function<bool(Mask)>& next) {
    std::set<Value*> tried;
    for (std::size_t j = 0; j < given.factors.size(); ++j) {
      Value* value = given.factors[j].value;
      if (value == nullptr || (used & bit(j)) != 0 || !tried.insert(value).second) continue;
      Mask taken = 0;
      double total = 0;
      int count = 0;
      for (std::size_t k = j; k < given.factors.size(); ++k) {
        if (given.factors[k].value != value || (used & bit(k)) != 0) continue;
        taken |= bit(k);
        total += given.factors[k].exponent;
        ++count;
      }
      if (count < 2 || total != exponent) continue;
      if (atom(wanted, value, [&](double scale) { return scale == 1 && next(taken); })) return true;
    }
    return false;
  }

  /// What is left of the scalars is the pattern's number, or the factor by which the graph's value is larger.
  bool take_numbers(const Product& wanted, const std::vector<const Factor*>& sorted, std::size_t i, double scalar,
                    const Next& next) {
    if (wanted.scalar == 0) return scalar == 0 && next(1);
    double rest = scalar / wanted.scalar;
    double* open = nullptr;
    double open_exponent = 1;
    for (; i < sorted.size(); ++i) {
      double& number = numbers_[form_.of(sorted[i]->value).index];
      if (!std::isnan(number)) {
        rest /= std::pow(number, sorted[i]->exponent);
      } else if (open != nullptr) {
        return false;
      } else {
        open = &number;
        open_exponent = sorted[i]->exponent;
      }
    }
    if (open == nullptr) return next(rest);
    *open = std::pow(rest, 1 / open_exponent);
    if (next(1)) return true;
    *open = std::numeric_limits<double>::quiet_NaN();
    return false;
  }

  bool sum(const Sum& wanted, const Factor& given, const Next& next) {
    if (given.sum != nullptr && sum(wanted, *given.sum, next)) return true;
    if (given.sum != nullptr || given.value == nullptr) return false;
    // Behind a root a sum may hide in a product with a scalar.
    const Product form = algebra::product_of(graph_, given.value, false);
    if (form.factors.size() != 1 || form.factors.front().exponent != 1 || form.factors.front().sum == nullptr) {
      return false;
    }
    return sum(wanted, *form.factors.front().sum, [&](double scale) { return next(scale * form.scalar); });
  }

  bool sum(const Sum& wanted, const Sum& given, const Next& next) {
    if (given.terms.size() >= 60) return false;
    std::vector<const Product*> sorted;
    std::vector<const Product*> numbers;
    for (const Product& term : wanted.terms) {
      const bool number = std::all_of(term.factors.begin(), term.factors.end(),
                                      [this](const Factor& factor) { return is_number(factor); });
      (number ? numbers : sorted).push_back(&term);
    }
    if (numbers.size() > 1 || sorted.size() > given.terms.size()) return false;
    const auto difficulty = [this](const Product* term) {
      int lowest = 4;
      for (const Factor& factor : term->factors) lowest = std::min(lowest, rank(factor));
      return lowest;
    };
    std::stable_sort(sorted.begin(), sorted.end(),
                     [&](const Product* a, const Product* b) { return difficulty(a) < difficulty(b); });
    const Product* number = numbers.empty() ? nullptr : numbers.front();
    return terms(SumSearch{wanted, given, sorted, number, next}, 0, 0, 0, given.constant);
  }

  struct SumSearch {
    const Sum& wanted;
    const Sum& given;
    const std::vector<const Product*>& sorted;
    const Product* number;
    const Next& next;
  };

  /// `scale` is 0 as long as it is not known.
  bool terms(const SumSearch& search, std::size_t i, Mask used, double scale, double constant) {
    if (i == search.sorted.size()) {
      if (used != bits(0, search.given.terms.size()) || scale == 0) return false;
      return constants(search, scale, constant);
    }
    const Product& term = *search.sorted[i];
    const auto fits = [&](double factor) { return factor != 0 && (scale == 0 || near(factor, scale)); };
    for (std::size_t j = 0; j < search.given.terms.size(); ++j) {
      if ((used & bit(j)) != 0) continue;
      const auto step = [&](double factor) {
        return fits(factor) && terms(search, i + 1, used | bit(j), factor, constant);
      };
      if (product(term, search.given.terms[j], step)) return true;
    }
    if (term.factors.size() != 1 || term.factors.front().sum != nullptr || term.factors.front().exponent != 1) {
      return false;
    }
    for (const algebra::SumSpan& span : search.given.spans) {
      const Mask taken = bits(span.begin, span.end);
      const double factor = span.scale / term.scalar;
      if ((used & taken) != 0 || !fits(factor)) continue;
      const auto step = [&](double more) {
        return more == 1 && terms(search, i + 1, used | taken, factor, constant - span.constant);
      };
      if (atom(form_.of(term.factors.front().value), span.value, step)) return true;
    }
    return false;
  }

  bool constants(const SumSearch& search, double scale, double constant) {
    const double rest = constant / scale - search.wanted.constant;
    if (search.number == nullptr) {
      return (near(constant / scale, search.wanted.constant) || std::fabs(rest) < 1e-30) && search.next(scale);
    }
    Product left;
    left.scalar = rest;
    return product(*search.number, left, [&](double factor) { return near(factor, 1) && search.next(scale); });
  }

  bool operation(const PatternValue& wanted, Value* given, const Next& next) {
    const Node& maker = wanted.maker->node;
    if (maker.is("ReduceMean")) return mean(wanted, given, next);
    if (const auto clamp = pattern_clamp(wanted)) return clamps(*clamp, given, next);
    Node* node = given->producer;
    if (node == nullptr || node->op != maker.op || is_quantised(*node)) return false;
    if (node->results.size() != maker.results.size()) return false;
    const auto place = [given](const std::vector<Value*>& results) {
      return std::find(results.begin(), results.end(), given) - results.begin();
    };
    const auto wanted_place = std::find(maker.results.begin(), maker.results.end(), &wanted.value);
    if (place(node->results) != wanted_place - maker.results.begin() || !attributes_fit(maker, *node)) return false;
    for (const Value* result : maker.results) {
      const auto index = static_cast<std::size_t>(std::find(maker.results.begin(), maker.results.end(), result) -
                                                  maker.results.begin());
      const Value* bound = values_[form_.of(result).index];
      if (bound != nullptr && bound != node->results[index]) return false;
    }
    if (operands(wanted, node->operands, 0, next)) return true;
    if (!commutes(maker)) return false;
    return operands(wanted, {node->operands[1], node->operands[0]}, 0, next);
  }

  static bool commutes(const Node& maker) {
    static constexpr std::string_view kAlike[] = {"maximum", "minimum", "equal", "not_equal", "and", "or", "xor"};
    if (!maker.is("ElementWiseBinary")) return false;
    return std::find(std::begin(kAlike), std::end(kAlike), maker.attributes.text("operation")) != std::end(kAlike);
  }

  static bool attributes_fit(const Node& maker, const Node& node) {
    const Attribute* activation = node.attributes.find("activation");
    if (activation != nullptr && maker.attributes.find("activation") == nullptr &&
        std::get<std::string>(*activation) != "none") {
      return false;
    }
    return std::all_of(maker.attributes.items().begin(), maker.attributes.items().end(), [&node](const auto& item) {
      const Attribute* given = node.attributes.find(item.first);
      return given != nullptr && *given == item.second;
    });
  }

  bool operands(const PatternValue& wanted, const std::vector<Value*>& given, std::size_t i, const Next& next) {
    const Node& maker = wanted.maker->node;
    if (i == maker.operands.size()) {
      const bool absent = std::all_of(given.begin() + static_cast<std::ptrdiff_t>(std::min(i, given.size())),
                                      given.end(), [](const Value* operand) { return operand == nullptr; });
      return (wanted.maker->rest || absent) && next(1);
    }
    if (maker.operands[i] == nullptr) {
      return (i >= given.size() || given[i] == nullptr) && operands(wanted, given, i + 1, next);
    }
    if (i >= given.size()) return false;
    return value(wanted.operands[i], given[i],
                 [&](double factor) { return near(factor, 1) && operands(wanted, given, i + 1, next); });
  }

  bool mean(const PatternValue& wanted, Value* given, const Next& next) {
    const auto found = algebra::mean_of(graph_, given);
    if (!found) return false;
    const Attributes& attributes = wanted.maker->node.attributes;
    if (const Attribute* keep = attributes.find("keep_dims");
        keep != nullptr && std::get<bool>(*keep) != found->keep_dims) {
      return false;
    }
    if (const Attribute* axes = attributes.find("axes");
        axes != nullptr && std::get<std::vector<std::int64_t>>(*axes) != found->axes) {
      return false;
    }
    const auto step = [&](double factor) { return next(factor * found->factor); };
    if (!found->squared) return value(wanted.operands.front(), found->operand, step);
    Product square = algebra::product_of(graph_, found->operand, false);
    square.scalar *= square.scalar;
    for (Factor& factor : square.factors) factor.exponent *= 2;
    for (algebra::ProductSpan& span : square.spans) {
      span.exponent *= 2;
      span.scalar *= span.scalar;
    }
    return product(wanted.operands.front(), square, step);
  }

  /// An end of a clamp: a number, or the place of one; null where the clamp has no such end.
  struct End {
    double number;
    const PatternValue* open = nullptr;
  };
  struct PatternClamp {
    const Product* operand;
    End low;
    End high;
  };

  std::optional<PatternClamp> pattern_clamp(const PatternValue& wanted) const {
    const Node& maker = wanted.maker->node;
    const Attribute* found = maker.attributes.find("operation");
    if (found == nullptr) return std::nullopt;
    const std::string& name = std::get<std::string>(*found);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (name == "relu") return PatternClamp{&wanted.operands[0], {0}, {kInfinity}};
    if (name == "relu_min_max") {
      return PatternClamp{&wanted.operands[0],
                          {static_cast<double>(maker.attributes.real("min_value"))},
                          {static_cast<double>(maker.attributes.real("max_value"))}};
    }
    if (name != "maximum" && name != "minimum") return std::nullopt;
    for (const std::size_t i : {std::size_t{1}, std::size_t{0}}) {
      const PatternValue& bound = form_.of(maker.operands[i]);
      if (bound.kind != PatternKind::kNumber && bound.kind != PatternKind::kScalar) continue;
      End end = {algebra::scalar_of(&bound.value).value_or(0), bound.kind == PatternKind::kNumber ? &bound : nullptr};
      if (name == "maximum") return PatternClamp{&wanted.operands[1 - i], end, {kInfinity}};
      return PatternClamp{&wanted.operands[1 - i], {-kInfinity}, end};
    }
    return std::nullopt;
  }

  bool clamps(const PatternClamp& wanted, Value* given, const Next& next) {
    const auto found = algebra::clamp_of(graph_, given);
    if (!found) return false;
    const auto step = [&](double scale) {
      if (!(scale > 0)) return false;
      return end(wanted.low, found->low / scale,
                 [&](double) { return end(wanted.high, found->high / scale, [&](double) { return next(scale); }); });
    };
    if (found->operand != nullptr) return value(*wanted.operand, found->operand, step);
    const auto inner = algebra::without_activation(graph_, *found->fused);
    return inner && product(*wanted.operand, *inner, step);
  }

  bool end(const End& wanted, double given, const Next& next) {
    constexpr auto kLargest = static_cast<double>(std::numeric_limits<float>::max());
    const bool infinite = std::fabs(given) >= kLargest * 0.999;
    if (wanted.open == nullptr) {
      if (std::fabs(wanted.number) >= kLargest * 0.999) {
        return infinite && std::signbit(given) == std::signbit(wanted.number) && next(1);
      }
      return !infinite && near(given, wanted.number) && next(1);
    }
    double& number = numbers_[wanted.open->index];
    if (infinite) return false;
    if (!std::isnan(number)) return near(given, number) && next(1);
    number = given;
    if (next(1)) return true;
    number = std::numeric_limits<double>::quiet_NaN();
    return false;
  }

  /// The nodes between the last one and what is bound to the pattern's outside. False when another node needs one.
  bool collect(Node& last, std::vector<Node*>& parts) const {
    std::set<const Value*> outside;
    std::set<const Node*> shared;
    for (const auto& value : form_.values) {
      Value* bound = values_[value->index];
      if (bound == nullptr) continue;
      if (value->maker == nullptr) outside.insert(bound);
      if (value->maker != nullptr && value->maker->shared && bound->producer != nullptr) shared.insert(bound->producer);
    }
    parts.assign(1, &last);
    std::set<const Node*> known = {&last};
    for (std::size_t i = 0; i < parts.size(); ++i) {
      for (Value* operand : parts[i]->operands) {
        if (operand == nullptr || operand->producer == nullptr || outside.contains(operand)) continue;
        if (known.insert(operand->producer).second) parts.push_back(operand->producer);
      }
    }
    for (const Node* part : parts) {
      if (part == &last || shared.contains(part) || algebra::looked_through(*part)) continue;
      for (const Value* result : part->results) {
        const bool inner = std::all_of(result->users.begin(), result->users.end(),
                                       [&known](const Node* user) { return known.contains(user); });
        if (!inner || graph_.is_output(result)) return false;
      }
    }
    std::sort(parts.begin(), parts.end(), [](const Node* a, const Node* b) { return Graph::stands_before(b, a); });
    return true;
  }

  const Graph& graph_;
  const PatternForm& form_;
  std::vector<Value*> values_;
  std::vector<double> numbers_;
};

Value* Match::value(std::string_view name) const { return values_[form_->named("%" + std::string(name)).index]; }

Node* Match::node(std::string_view name) const {
  const Value* found = value(name);
  return found == nullptr ? nullptr : found->producer;
}

double Match::number(std::string_view name) const { return numbers_[form_->named("$" + std::string(name)).index]; }

Result<Pattern> Pattern::parse(std::string_view text) {
  HTPIPE_TRY(auto form, parse_pattern(text));
  return Pattern(std::move(form));
}

Pattern::Pattern(std::string_view text) {
  auto form = parse_pattern(text);
  HTPIPE_CHECK(form.has_value(), form ? std::string() : form.error().summary());
  form_ = std::move(*form);
}

std::optional<Match> Pattern::match(const Graph& graph, Node& last) const {
  return Matcher(graph, *form_).run(form_, last);
}

bool Pattern::possible(const Graph& graph) const {
  std::set<std::string> missing(form_->required.begin(), form_->required.end());
  for (const auto& node : graph.nodes()) {
    if (missing.empty()) break;
    missing.erase(kind_of(*node));
  }
  return missing.empty();
}

Result<PassReport> apply_rules(Graph& graph, const std::vector<PatternRule>& rules) {
  PassReport report;
  std::vector<const PatternRule*> possible;
  for (const PatternRule& rule : rules) {
    if (rule.pattern->possible(graph)) possible.push_back(&rule);
  }
  if (possible.empty()) return report;
  for (Node* node : node_list(graph)) {
    for (const PatternRule* rule : possible) {
      const auto match = rule->pattern->match(graph, *node);
      if (!match) continue;
      std::string note = describe(*node) + " and what is in front of it are " + std::string(rule->note);
      HTPIPE_TRY(const bool rewritten, rule->rewrite(graph, *match));
      if (!rewritten) continue;
      report.add(std::move(note));
      break;
    }
  }
  return report;
}

Result<Node*> replace(Graph& graph, const Match& match, std::string_view op, Attributes attributes,
                      std::vector<Value*> operands) {
  Node* last = match.parts.front();
  const std::string name = last->name();
  auto added = graph.add_node(op, name, std::move(attributes), std::move(operands), last->source, last);
  if (!added) return nullptr;
  if ((*added)->result()->type != last->result()->type) {
    graph.erase(*added);
    return nullptr;
  }
  graph.replace_uses(last->result(), (*added)->result());
  for (Node* part : match.parts) erase_unused(graph, part);
  graph.rename((*added)->result(), name);
  return *added;
}

}  // namespace htpipe::passes
