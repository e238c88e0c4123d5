// Patterns: a few nodes in the graph's text form, found in a graph by what they compute rather than by how it is spelled.
//
//   %t = multiply(%x, 0.70710678)
//   %e = erf(%t)
//   %s = add(%e, 1)
//   %y = multiply(%x, %s, 0.5)
//
// A line is a node: results, operator, operands, attributes. An elementwise operator may be called by its operation. The
// last line is what is looked for, the lines in front of it what it is made of. Operands are
//   %x         a value that no line defines: any value that is no constant; the same value wherever it stands
//   const %w   a constant         any %m   a value, constant or not
//   0.5        a scalar constant near that number
//   $e         any scalar constant; the same number wherever it stands
//   _          an absent operand  ...      behind the others: whatever further operands there are
// Attributes that a line names must be equal; the others are the pass's to read: match.node("t").
// In front of the operator may stand `optional` (a node with one operand that may be missing) and `shared` (a node that
// others may use as well). Everything else but the last node must serve nothing outside of the match.
//
// Sums, products, quotients, signs, scalar factors, powers and roots are matched as algebra (passes/algebra.h): in every
// order and grouping, with common factors inside or outside, with scalars wherever they stand. multiply and add may have
// more than two operands. A value that a pattern uses twice is one value of the graph. relu and relu_min_max stand for
// every clamp, with scalars moved through it; maximum and minimum with a scalar too; ReduceMean for every mean.
// Other operators match by name; operands of maximum, minimum, equal, and, or ... in both orders.
// Invariant: a match computes what the pattern says, but for the rounding of float32.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "passes/pass.h"

namespace htpipe::passes {

struct PatternForm;  ///< the parsed pattern; pattern_form.h

/// What of a graph a pattern stands for.
class Match {
 public:
  /// The value that stands for a name of the pattern. A name that the pattern does not have is a bug; a name within a
  /// sum or product, which no value of the graph needs to be, is null.
  [[nodiscard]] Value* value(std::string_view name) const;
  /// The node that makes it.
  [[nodiscard]] Node* node(std::string_view name) const;
  /// The number that stands for `$name`.
  [[nodiscard]] double number(std::string_view name) const;
  /// The last node, whose result is what the pattern says.
  [[nodiscard]] Node& last() const { return *parts.front(); }

  std::vector<Node*> parts;  ///< users before what they use; the last node first

 private:
  friend class Matcher;
  std::shared_ptr<const PatternForm> form_;
  std::vector<Value*> values_;
  std::vector<double> numbers_;
};

class Pattern {
 public:
  /// Errors: graph-syntax with the line.
  static Result<Pattern> parse(std::string_view text);
  /// The same for a text that stands in the program, where an error is a bug.
  explicit Pattern(std::string_view text);

  /// What ends in `last`; nullopt when that is not what the pattern says.
  [[nodiscard]] std::optional<Match> match(const Graph& graph, Node& last) const;
  /// False when the graph lacks an operator without which the pattern matches nowhere.
  [[nodiscard]] bool possible(const Graph& graph) const;

 private:
  explicit Pattern(std::shared_ptr<const PatternForm> form) : form_(std::move(form)) {}
  std::shared_ptr<const PatternForm> form_;
};

/// Rewrites one match. True when it did; false, and the graph is as before, when it cannot be.
using Rewrite = std::function<Result<bool>(Graph& graph, const Match& match)>;
struct PatternRule {
  const Pattern* pattern;
  Rewrite rewrite;
  std::string_view note;  ///< "... and what is in front of it are <note>"
};
/// Tries the rules at every node, in order of execution; of each node the first that rewrites.
Result<PassReport> apply_rules(Graph& graph, const std::vector<PatternRule>& rules);

/// Puts one node of these operands into the place of what was matched; its result keeps the name, its source is that of
/// the last node. Parts that nothing uses any more disappear. Null, and the graph is as before, when the operator's rule
/// refuses, or gives another type than the last node has.
Result<Node*> replace(Graph& graph, const Match& match, std::string_view op, Attributes attributes,
                      std::vector<Value*> operands);

}  // namespace htpipe::passes
