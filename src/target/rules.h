// What each chip executes, per operator and data type: a judgement without Qualcomm's libraries.
// Invariant: the table (rules.inc) says what the vendor's validator says, except that a chip without float16 units is
// not credited with float16 because the emulator computes it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "target/target.h"

namespace htpipe {

/// The type that activations get. Weights have 8 bits (or 4) with kInt8 and kInt16.
enum class Precision : std::uint8_t { kInt8, kInt16, kFp16 };
/// "int8", "int16", "fp16".
[[nodiscard]] std::string_view name_of(Precision precision);
[[nodiscard]] std::optional<Precision> parse_precision(std::string_view text);

/// True when the chip computes activations of that type.
[[nodiscard]] bool supports(const Target& target, Precision precision);

enum class Support : std::uint8_t {
  kNative,       ///< executed as it stands
  kRewritten,    ///< executed after a rewrite that htpipe does
  kUnsupported,  ///< not executed
};
/// "native", "rewritten", "unsupported".
[[nodiscard]] std::string_view name_of(Support support);

struct NodeVerdict {
  std::string node;
  std::string op;
  std::string layer;
  Support support = Support::kNative;
  std::string reason;  ///< empty for kNative
  std::string heir;    ///< the node that computes it in the optimised graph, by cover(); empty = none
};

/// What a value is computed as: the columns of the table, the first three as in Precision.
enum class Column : std::uint8_t { kInt8, kInt16, kFp16, kInt32, kBool };
inline constexpr int kColumns = 5;

/// One row of the table.
struct Rule {
  std::string_view op;
  std::string_view attribute;  ///< empty = the row holds for every node of the operator
  std::string_view value;
  int low_rank;
  int high_rank[kColumns];  ///< by Column; 0 = not executed
  int int16_from;           ///< first Hexagon version that executes it with all operands in 16 bits; 0 = all
  bool condition;           ///< only the first operand may be bool

  [[nodiscard]] int high(Column column) const { return high_rank[static_cast<std::size_t>(column)]; }
};
[[nodiscard]] const std::vector<Rule>& all_rules();

/// One verdict per node, in order. Float values are judged for the type `precision` that they will get; values that are
/// quantised already, or float16, for the type that they have. Never fails: what the table does not know is unsupported.
[[nodiscard]] std::vector<NodeVerdict> judge(const Graph& graph, const Target& target, Precision precision);
[[nodiscard]] NodeVerdict judge(const Node& node, const Target& target, Precision precision);

}  // namespace htpipe
