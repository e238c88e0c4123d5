#include "check/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <utility>

#include "check/findings.h"
#include "check/partition.h"
#include "ir/encodings.h"
#include "passes/driver.h"
#include "quant/from_qdq.h"
#include "target/coverage.h"

namespace htpipe::check {
namespace {

Operand operand_of(const Value& value) { return {value.name, to_string(value.type), value.type.shape}; }

/// "stride=[2,2], group=32": what differs from the defaults.
std::string parameters_of(const Node& node) {
  std::string text;
  for (const auto& [name, value] : node.attributes.items()) {
    const AttributeSpec* spec = node.op->attribute(name);
    if (spec != nullptr && !spec->required && spec->default_value == value) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, to_string(value));
  }
  return text;
}

void describe(const Node& node, NodeReport& row) {
  row.line = node.source.line;
  row.parameters = parameters_of(node);
  for (const Value* operand : node.operands) {
    if (operand == nullptr) continue;
    row.inputs.push_back(operand_of(*operand));
    if (row.previous.empty() && operand->producer != nullptr) row.previous = operand->producer->name();
  }
  std::set<std::string_view> named;
  for (const Value* result : node.results) {
    row.outputs.push_back(operand_of(*result));
    for (const Node* user : result->users) {
      if (named.insert(user->name()).second) row.next.push_back(user->name());
    }
  }
}

Fate fate_of(Support support) {
  switch (support) {
    case Support::kNative:
      return Fate::kNative;
    case Support::kRewritten:
      return Fate::kRewritten;
    case Support::kUnsupported:
      break;
  }
  return Fate::kFallback;
}

void add_nodes(const Model& model, const Target& target, const Findings& findings, const Partition& partition,
               CheckReport& report) {
  const Coverage coverage = cover(model.imported, model.optimised, target, report.precision, judge_by(findings));
  auto node = model.imported.nodes().begin();
  for (const NodeVerdict& verdict : coverage.nodes) {
    NodeReport row;
    row.node = verdict.node;
    row.op = verdict.op;
    row.layer = verdict.layer;
    row.fate = fate_of(verdict.support);
    row.reason = verdict.reason;
    if (const auto at = findings.refused.find(verdict.heir); at != findings.refused.end()) {
      row.rule_reason = at->second.rule;
      row.vendor_reason = at->second.vendor;
    }
    if (const auto at = partition.part_of.find(verdict.heir); at != partition.part_of.end()) row.part = at->second;
    describe(**node++, row);
    report.nodes.push_back(std::move(row));
  }
}

}  // namespace

Result<Model> prepare(Graph imported, std::vector<std::string> warnings) {
  Graph optimised = imported.clone();
  if (quant::is_qdq(optimised)) {
    HTPIPE_TRY(quant::StoredGraph stored, quant::from_qdq(std::move(optimised)));
    optimised = std::move(stored.graph);
    for (const std::string& kept : stored.kept) warnings.push_back("stays in float: " + kept);
  } else if (!has_encodings(optimised)) {
    HTPIPE_CHECK_OK(run_passes(optimised));
  }
  return Model{std::move(imported), std::move(optimised), std::move(warnings)};
}

Result<CheckReport> check_model(const Model& model, const Target& target, const CheckOptions& options) {
  HTPIPE_TRY(const Findings findings, find_obstacles(model.optimised, target, options.precision, options.vendor));
  const auto on_chip = [&](const Node& node) { return findings.refused.count(node.name()) == 0; };
  Partition parts = partition(model.optimised, findings.assumed, on_chip);

  CheckReport report;
  report.model = model.imported.name();
  report.target = target.id;
  report.precision = options.precision;
  report.warnings = model.warnings;
  if (!findings.note.empty()) report.warnings.push_back(findings.note);
  if (options.vendor != nullptr && findings.note.empty()) report.vendor = options.vendor->install().wheel_version;
  report.feasible = findings.feasible();
  add_nodes(model, target, findings, parts, report);
  report.parts = std::move(parts.parts);
  report.cuts = std::move(parts.cuts);
  const Subject subject{model.imported, model.optimised, findings.assumed, target, options.precision};
  report.memory = estimate_memory(subject);
  report.advice = advise(subject, *report.memory);
  return report;
}

std::optional<CheckReport> report_impossible(const Error& error, const std::string& model, const Target& target,
                                             Precision precision) {
  constexpr Code kCodes[] = {Code::kUnsupportedOp, Code::kUnsupportedForm, Code::kNeedsConstant, Code::kDataDependent};
  if (std::find(std::begin(kCodes), std::end(kCodes), error.code) == std::end(kCodes)) return std::nullopt;
  CheckReport report;
  report.model = model;
  report.target = target.id;
  report.precision = precision;
  const auto add = [&](std::string reason) {
    NodeReport row;
    row.node = error.place.node;
    row.fate = Fate::kImpossible;
    row.reason = std::move(reason);
    report.nodes.push_back(std::move(row));
  };
  if (error.notes.size() > 1) {
    for (const std::string& note : error.notes) add(note);
  } else {
    add(error.summary());
  }
  report.warnings.push_back(fmt::format("{} {}", word(error.code), error.next_step()));
  return report;
}

}  // namespace htpipe::check
