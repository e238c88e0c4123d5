// A parsed pattern: nodes that belong to no graph, and the sums and products that they are.
// Invariant: the forms come from the same functions as those of graphs (passes/algebra.h), so they meet.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "passes/algebra.h"

namespace htpipe::passes {

enum class PatternKind : std::uint8_t {
  kValue,     ///< %x that no line defines
  kConstant,  ///< const %w
  kAny,       ///< any %m
  kNumber,    ///< $e
  kScalar,    ///< a number that stands in the text
  kInner,     ///< defined by a line
};

/// What the text says of a node besides operator, operands and attributes.
struct PatternNode {
  Node node;
  bool optional = false;
  bool shared = false;
  bool rest = false;  ///< further operands may follow
};

struct PatternValue {
  Value value;
  PatternKind kind = PatternKind::kInner;
  std::size_t index = 0;                   ///< among all values
  PatternNode* maker = nullptr;            ///< of an inner value
  algebra::Product form;                   ///< of an inner value, taken apart
  std::vector<algebra::Product> operands;  ///< of the maker's operands
};

struct PatternForm {
  std::vector<std::unique_ptr<PatternValue>> values;
  std::vector<std::unique_ptr<PatternNode>> nodes;
  std::unordered_map<const Value*, PatternValue*> by_value;
  std::map<std::string, PatternValue*, std::less<>> by_name;  ///< "%x" and "$e"
  PatternValue* last = nullptr;
  std::vector<std::string> required;  ///< kinds (kind_of) without which nothing matches

  [[nodiscard]] PatternValue& of(const Value* value) const { return *by_value.at(value); }
  /// A name that the pattern does not have is a bug.
  [[nodiscard]] const PatternValue& named(std::string_view name) const;
};

/// The operator, with its operation where it has one: "ElementWiseUnary erf".
[[nodiscard]] std::string kind_of(const Node& node);

/// Errors: graph-syntax with the line.
Result<std::shared_ptr<const PatternForm>> parse_pattern(std::string_view text);

}  // namespace htpipe::passes
