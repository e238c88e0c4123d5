#include "target/rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "ir/op.h"

namespace htpipe {
namespace {

constexpr std::array<Precision, 3> kPrecisions = {Precision::kInt8, Precision::kInt16, Precision::kFp16};

/// The text without its quotation marks; anything else as the text form has it.
std::string spelling_of(const Attribute& attribute) {
  const auto* text = std::get_if<std::string>(&attribute);
  return text != nullptr ? *text : to_string(attribute);
}

/// True for an axis, or a list of one axis, that is the last of the data: the value "last" of a row.
bool is_last_axis(const Node& node, const Attribute& attribute) {
  const auto last = static_cast<std::int64_t>(node.operands[0]->type.shape.size()) - 1;
  if (const auto* axis = std::get_if<std::int64_t>(&attribute)) return *axis == last;
  const auto* axes = std::get_if<std::vector<std::int64_t>>(&attribute);
  return axes != nullptr && axes->size() == 1 && axes->front() == last;
}

/// The row for a node; nullptr with a reason when there is none.
const Rule* rule_for(const Node& node, std::string& reason) {
  bool known = false;
  for (const Rule& rule : all_rules()) {
    if (rule.op != node.op->name) continue;
    known = true;
    if (rule.attribute.empty()) return &rule;
    const Attribute* attribute = node.attributes.find(rule.attribute);
    if (attribute != nullptr && spelling_of(*attribute) == rule.value) return &rule;
    if (attribute != nullptr && rule.value == "last" && is_last_axis(node, *attribute)) return &rule;
    reason = fmt::format("the HTP has no {} with {} {}", rule.op, rule.attribute,
                         attribute == nullptr ? "missing" : to_string(*attribute));
  }
  if (!known) reason = fmt::format("it is not known whether the HTP executes {}", node.op->name);
  return nullptr;
}

/// The column of a value; nullopt when the HTP has no type for it.
std::optional<Column> column_of(const TensorType& type, Precision wanted) {
  switch (type.dtype) {
    case DType::kF32:
      return static_cast<Column>(wanted);
    case DType::kF16:
      return Column::kFp16;
    case DType::kU8:
    case DType::kI8:
      return Column::kInt8;
    case DType::kU16:
    case DType::kI16:
      return Column::kInt16;
    case DType::kI32:
    case DType::kU32:
      return type.encoding ? std::nullopt : std::optional(Column::kInt32);
    case DType::kBool:
      return Column::kBool;
    default:
      return std::nullopt;
  }
}

/// The type that float data get in a precision.
DType dtype_of(Precision precision) {
  switch (precision) {
    case Precision::kInt8:
      return DType::kU8;
    case Precision::kInt16:
      return DType::kU16;
    case Precision::kFp16:
      return DType::kF16;
  }
  return DType::kF32;
}

bool is_real(Column column) { return column != Column::kInt32 && column != Column::kBool; }

std::string_view name_of(Column column) {
  if (is_real(column)) return htpipe::name_of(static_cast<Precision>(column));
  return column == Column::kBool ? "bool" : "int32";
}

/// QNN has no rank 0: a single number is lowered as a list of one.
int rank_of(const Value& value) { return std::max(1, static_cast<int>(value.type.shape.size())); }

/// Role of operand `index`; a variadic operand stands for all behind it.
Role role_of(const Node& node, std::size_t index) {
  const auto& operands = node.op->operands;
  return operands.empty() ? Role::kData : operands[std::min(index, operands.size() - 1)].role;
}

/// Whether the chip computes with values of the column at all; the reason when not.
std::string refuse_type(Column column, const Target& target) {
  if (!is_real(column) || supports(target, static_cast<Precision>(column))) return {};
  return fmt::format("{} ({}) has no {}", target.id, target.arch(),
                     column == Column::kFp16 ? "float16" : "16-bit activations");
}

/// Whether operand `index` says where, and is not computed with.
bool is_index(const Node& node, std::size_t index) {
  return index < node.op->operands.size() && node.op->operands[index].name == "indices";
}

/// Why a value cannot be an operand; empty when it can.
std::string refuse_operand(const Value& value, std::size_t index, const Rule& rule, const Target& target,
                           Precision wanted) {
  const auto column = column_of(value.type, wanted);
  if (!column) return fmt::format("the HTP does not compute with {} (%{})", name_of(value.type.dtype), value.name);
  if (std::string reason = refuse_type(*column, target); !reason.empty()) return reason;
  const int high = rule.high(*column);
  if (high == 0 || (*column == Column::kBool && rule.condition && index > 0)) {
    return fmt::format("the HTP has no {} {} {}", rule.op, is_real(*column) ? "in" : "of", name_of(*column));
  }
  const int rank = rank_of(value);
  if (rank > high) return fmt::format("rank {} (%{}); at most {} in {}", rank, value.name, high, name_of(*column));
  if (index == 0 && rank < rule.low_rank) {
    return fmt::format("rank {} (%{}); at least {}", rank, value.name, rule.low_rank);
  }
  return {};
}

/// The same for a result. Types that no operand can have are those that the operator makes itself: indices, comparisons.
std::string refuse_result(const Value& value, const Rule& rule, const Target& target, Precision wanted) {
  const auto column = column_of(value.type, wanted);
  if (!column) return fmt::format("the HTP does not compute with {} (%{})", name_of(value.type.dtype), value.name);
  if (std::string reason = refuse_type(*column, target); !reason.empty()) return reason;
  const bool converts = rule.attribute == "to";
  const int high = converts ? *std::max_element(rule.high_rank, rule.high_rank + kColumns) : rule.high(*column);
  if (high == 0 && !is_real(*column)) return {};
  if (high == 0) return fmt::format("the HTP has no {} in {}", rule.op, name_of(*column));
  const int rank = rank_of(value);
  if (rank > high) return fmt::format("rank {} (%{}); at most {} in {}", rank, value.name, high, name_of(*column));
  return {};
}

/// Whether every value that `node` computes with has 16 bits.
bool is_wide(const Node& node, Precision wanted) {
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Value* operand = node.operands[i];
    if (operand == nullptr || is_index(node, i) || role_of(node, i) != Role::kData) continue;
    if (column_of(operand->type, wanted) != Column::kInt16) return false;
  }
  return !node.operands.empty();
}

std::string refuse(const Node& node, const Target& target, Precision precision) {
  std::string reason;
  const Rule* rule = rule_for(node, reason);
  if (rule == nullptr) return reason;
  if (node.op->lowering.check) {
    const NodeTypes types(node);
    const NodeView stored = types.view();
    std::vector<const TensorType*> operands(stored.operands.begin(), stored.operands.end());
    TensorType first;  // as it will be stored: what the chip cannot do may hang on it
    if (stored.has(0) && stored.type(0).dtype == DType::kF32) {
      first = stored.type(0);
      first.dtype = dtype_of(precision);
      operands[0] = &first;
    }
    const NodeView view{stored.attributes, operands, stored.constants};
    const Status expressible = node.op->lowering.check(view);
    if (!expressible) return expressible.error().message;
  }
  if (target.htp_version < rule->int16_from && is_wide(node, precision)) {
    return fmt::format("{} ({}) has no {} of 16-bit values only; v{} has", target.id, target.arch(), rule->op,
                       rule->int16_from);
  }
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Value* operand = node.operands[i];
    if (operand == nullptr || is_index(node, i)) continue;
    if (role_of(node, i) == Role::kData) {
      reason = refuse_operand(*operand, i, *rule, target, precision);
      if (!reason.empty()) return reason;
    } else if (operand->type.dtype == DType::kI16 && !target.supports_int16_weights) {
      return fmt::format("{} ({}) has no 16-bit weights (%{})", target.id, target.arch(), operand->name);
    }
  }
  for (const Value* result : node.results) {
    reason = refuse_result(*result, *rule, target, precision);
    if (!reason.empty()) return reason;
  }
  return {};
}

}  // namespace

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> rules = {
#define HTPIPE_RULE_ROW(op, attribute, value, low, int8, int16, fp16, int32, boolean, from, condition) \
  Rule{op, attribute, value, low, {int8, int16, fp16, int32, boolean}, from, condition},
#define HTPIPE_RULE(...) HTPIPE_RULE_ROW(__VA_ARGS__, 0, false)
#define HTPIPE_RULE_INT16_FROM(version, ...) HTPIPE_RULE_ROW(__VA_ARGS__, version, false)
#define HTPIPE_RULE_CONDITION(...) HTPIPE_RULE_ROW(__VA_ARGS__, 0, true)
#include "target/rules.inc"
#undef HTPIPE_RULE
#undef HTPIPE_RULE_INT16_FROM
#undef HTPIPE_RULE_CONDITION
#undef HTPIPE_RULE_ROW
  };
  return rules;
}

std::string_view name_of(Precision precision) {
  switch (precision) {
    case Precision::kInt8:
      return "int8";
    case Precision::kInt16:
      return "int16";
    case Precision::kFp16:
      return "fp16";
  }
  return "";
}

std::optional<Precision> parse_precision(std::string_view text) {
  for (const Precision precision : kPrecisions) {
    if (name_of(precision) == text) return precision;
  }
  return std::nullopt;
}

std::string_view name_of(Support support) {
  switch (support) {
    case Support::kNative:
      return "native";
    case Support::kRewritten:
      return "rewritten";
    case Support::kUnsupported:
      return "unsupported";
  }
  return "";
}

bool supports(const Target& target, Precision precision) {
  switch (precision) {
    case Precision::kInt8:
      return true;
    case Precision::kInt16:
      return target.supports_int16_activations;
    case Precision::kFp16:
      return target.supports_fp16;
  }
  return false;
}

NodeVerdict judge(const Node& node, const Target& target, Precision precision) {
  NodeVerdict verdict{node.name(), std::string(node.op->name), node.layer(), Support::kNative, {}, {}};
  verdict.reason = refuse(node, target, precision);
  if (!verdict.reason.empty()) {
    verdict.support = Support::kUnsupported;
  } else if (node.op->layout == Layout::kSpatial && node.attributes.text("data_layout") == "nchw") {
    verdict.support = Support::kRewritten;
    verdict.reason = "channel-first; the HTP takes channel-last data";
  }
  return verdict;
}

std::vector<NodeVerdict> judge(const Graph& graph, const Target& target, Precision precision) {
  std::vector<NodeVerdict> verdicts;
  verdicts.reserve(graph.nodes().size());
  for (const auto& node : graph.nodes()) verdicts.push_back(judge(*node, target, precision));
  return verdicts;
}

}  // namespace htpipe
