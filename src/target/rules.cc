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

/// The type in which a value is computed; nullopt when the HTP has none for it.
std::optional<Precision> precision_of(const TensorType& type, Precision wanted) {
  switch (type.dtype) {
    case DType::kF32:
      return wanted;
    case DType::kF16:
      return Precision::kFp16;
    case DType::kU8:
    case DType::kI8:
      return Precision::kInt8;
    case DType::kU16:
    case DType::kI16:
      return Precision::kInt16;
    case DType::kI32:
    case DType::kU32:
      return type.encoding ? std::nullopt : std::optional(Precision::kInt8);
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

/// Role of operand `index`; a variadic operand stands for all behind it.
Role role_of(const Node& node, std::size_t index) {
  const auto& operands = node.op->operands;
  return operands.empty() ? Role::kData : operands[std::min(index, operands.size() - 1)].role;
}

/// Why a value cannot be an operand or a result; empty when it can.
std::string refuse_value(const Value& value, const Rule& rule, const Target& target, Precision wanted,
                         bool check_low_rank) {
  const auto precision = precision_of(value.type, wanted);
  if (!precision) return fmt::format("the HTP does not compute with {} (%{})", name_of(value.type.dtype), value.name);
  if (!supports(target, *precision)) {
    return fmt::format("{} ({}) has no {}", target.id, target.arch(),
                       *precision == Precision::kFp16 ? "float16" : "16-bit activations");
  }
  const int high = rule.high_rank[static_cast<std::size_t>(*precision)];
  if (*precision == Precision::kInt16 && target.htp_version < rule.int16_from) {
    return fmt::format("{} ({}) has no {} in int16; v{} has", target.id, target.arch(), rule.op, rule.int16_from);
  }
  if (high == 0) return fmt::format("the HTP has no {} in {}", rule.op, name_of(*precision));
  const auto rank = static_cast<int>(value.type.shape.size());
  if (rank > high) return fmt::format("rank {} (%{}); at most {} in {}", rank, value.name, high, name_of(*precision));
  if (check_low_rank && rank < rule.low_rank) {
    return fmt::format("rank {} (%{}); at least {}", rank, value.name, rule.low_rank);
  }
  return {};
}

std::string refuse_bool(const Value& value, const Rule& rule, std::size_t operand) {
  if (operand >= static_cast<std::size_t>(rule.bool_operands)) {
    return fmt::format("the HTP has no {} of bool (%{})", rule.op, value.name);
  }
  const auto rank = static_cast<int>(value.type.shape.size());
  const int high = std::max({rule.high_rank[0], rule.high_rank[1], rule.high_rank[2]});
  return rank <= high ? std::string() : fmt::format("rank {} (%{}); at most {} in bool", rank, value.name, high);
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
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Value* operand = node.operands[i];
    if (operand == nullptr) continue;
    if (operand->type.dtype == DType::kBool) {
      reason = refuse_bool(*operand, *rule, i);
      if (!reason.empty()) return reason;
    } else if (role_of(node, i) == Role::kData) {
      reason = refuse_value(*operand, *rule, target, precision, i == 0);
      if (!reason.empty()) return reason;
    } else if (operand->type.dtype == DType::kI16 && !target.supports_int16_weights) {
      return fmt::format("{} ({}) has no 16-bit weights (%{})", target.id, target.arch(), operand->name);
    }
  }
  for (const Value* result : node.results) {
    // Only comparisons and operators on bool have such results, and their operands were judged.
    if (result->type.dtype == DType::kBool) continue;
    reason = refuse_value(*result, *rule, target, precision, false);
    if (!reason.empty()) return reason;
  }
  return {};
}

}  // namespace

const std::vector<Rule>& all_rules() {
  static const std::vector<Rule> rules = {
#define HTPIPE_RULE(op, attribute, value, low, int8, int16, fp16) \
  Rule{op, attribute, value, low, {int8, int16, fp16}, 0, 0},
#define HTPIPE_RULE_INT16_FROM(version, op, attribute, value, low, int8, int16, fp16) \
  Rule{op, attribute, value, low, {int8, int16, fp16}, version, 0},
#define HTPIPE_RULE_BOOL(operands, op, attribute, value, low, int8, int16, fp16) \
  Rule{op, attribute, value, low, {int8, int16, fp16}, 0, operands},
#include "target/rules.inc"
#undef HTPIPE_RULE
#undef HTPIPE_RULE_INT16_FROM
#undef HTPIPE_RULE_BOOL
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
