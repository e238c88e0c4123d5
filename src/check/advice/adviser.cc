#include "check/advice/adviser.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "ir/encodings.h"

namespace htpipe::check {

Adviser::Adviser(const Subject& about, const MemoryReport& needed) : subject(about), memory(needed) {
  calibrated = has_encodings(about.optimised);
  for (const auto& node : about.optimised.nodes()) macs_ += macs_of(*node);
}

std::int64_t Adviser::macs_of(const Node& node) {
  if (!node.op->macs) return 0;
  const NodeTypes types(node);
  return node.op->macs(types.view(), types.results());
}

void Adviser::add(std::string_view id, const Node* node, std::string detail, std::optional<Gain> gain) {
  const auto& rules = advice_rules();
  const auto rule = std::find_if(rules.begin(), rules.end(), [id](const AdviceRule& row) { return row.id == id; });
  HTPIPE_CHECK(rule != rules.end(), "advice without a row in the table");
  Advice advice;
  advice.rule = rule->id;
  advice.severity = rule->severity;
  if (node != nullptr) {
    advice.node = node->name();
    advice.layer = node->source.layer;
    advice.line = node->source.line;
  }
  advice.issue = fmt::format("{}: {}", rule->found, detail);
  advice.text = fmt::format("{} {}", rule->why, rule->advice);
  advice.gain = std::move(gain);
  advice.fix = rule->fix.empty() ? Fix::kNone : Fix::kAvailable;
  advice.fix_info = rule->fix;
  list_.push_back(std::move(advice));
}

std::vector<Advice> Adviser::take() { return std::move(list_); }

std::uint64_t stored_bytes_of(const Value& value, const Subject& subject) {
  const Value* twin = subject.assumed.find_value(value.name);
  return twin != nullptr ? twin->type.size_bytes() : value.type.size_bytes();
}

}  // namespace htpipe::check
