#include "check/findings.h"

#include <fmt/core.h>

#include <utility>

#include "check/assumed.h"
#include "qnn/spec_check.h"

namespace htpipe::check {
namespace {

/// The node of the optimised graph that a node of the assumed graph serves: itself, or for a conversion the node that
/// takes it, else the one that it is made from.
const Node* served(const Node& node, const Graph& optimised) {
  const auto original = [&](const Node* at) -> const Node* {
    const Value* value = optimised.find_value(at->name());
    return value == nullptr ? nullptr : value->producer;
  };
  for (const Node* at = &node; at != nullptr;) {
    if (const Node* found = original(at)) return found;
    at = at->result()->users.empty() ? nullptr : at->result()->users.front();
  }
  for (const Node* at = &node; at != nullptr;) {
    if (const Node* found = original(at)) return found;
    at = at->operands.empty() || at->operands[0] == nullptr ? nullptr : at->operands[0]->producer;
  }
  return nullptr;
}

/// Owner of every operator of the spec. What the lowering adds stands in front of, or ends in, the node's own result.
std::vector<const Node*> owners_of(const qnn::GraphSpec& spec, const Graph& assumed, const Graph& optimised) {
  std::vector<const Node*> owners(spec.ops.size(), nullptr);
  const Node* next = nullptr;
  for (std::size_t i = spec.ops.size(); i-- > 0;) {
    for (const std::string& output : spec.ops[i].outputs) {
      const Value* value = assumed.find_value(output);
      if (value != nullptr && value->producer != nullptr) next = served(*value->producer, optimised);
    }
    owners[i] = next;
  }
  return owners;
}

std::string words_of(const qnn::OpVerdict& verdict) {
  if (verdict.kind == qnn::OpVerdict::Kind::kCrashed) {
    return fmt::format("the vendor's validator crashes on {}: {}", verdict.type, verdict.reason);
  }
  return fmt::format("the vendor's validator refuses {} ({}){}{}", verdict.type, verdict.code,
                     verdict.reason.empty() ? "" : ": ", verdict.reason);
}

Status ask(const qnn::Vendor& vendor, const Assumed& assumed, const Graph& optimised, const Target& target,
           Findings& findings) {
  HTPIPE_TRY(const auto verdicts, vendor.validate(assumed.spec, target.soc_model));
  const std::vector<const Node*> owners = owners_of(assumed.spec, assumed.graph, optimised);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i].kind == qnn::OpVerdict::Kind::kSupported || owners[i] == nullptr) continue;
    Finding& finding = findings.refused[owners[i]->name()];
    if (finding.vendor.empty()) finding.vendor = words_of(verdicts[i]);
  }
  return {};
}

}  // namespace

std::string Finding::reason() const {
  if (rule.empty() || vendor.empty()) return rule + vendor;
  return rule + "; " + vendor;
}

Result<Findings> find_obstacles(const Graph& optimised, const Target& target, Precision precision,
                                const qnn::Vendor* vendor) {
  HTPIPE_TRY(Assumed assumed, assume(optimised, target, precision));
  Findings findings{Graph(optimised.name()), {}, {}};
  for (auto& [node, reason] : assumed.refused) findings.refused[node].rule = std::move(reason);
  // The types of the chip decide, which are those of the assumed graph.
  for (const auto& node : assumed.graph.nodes()) {
    NodeVerdict verdict = judge(*node, target, precision);
    if (verdict.support != Support::kUnsupported) continue;
    const Node* owner = served(*node, optimised);
    if (owner == nullptr) continue;
    std::string& rule = findings.refused[owner->name()].rule;
    if (rule.empty()) rule = std::move(verdict.reason);
  }
  if (assumed.spec.ops.empty()) {
    findings.note = "no operator is left that the chip could execute";
  } else if (const Status well_formed = qnn::check(assumed.spec); !well_formed) {
    findings.note = well_formed.error().summary();
  } else if (vendor != nullptr) {
    HTPIPE_CHECK_OK(ask(*vendor, assumed, optimised, target, findings));
  }
  findings.assumed = std::move(assumed.graph);
  return findings;
}

Judge judge_by(const Findings& findings) {
  return [&findings](const Node& node) {
    NodeVerdict verdict{node.name(), std::string(node.op->name), node.layer(), Support::kNative, {}, {}};
    const auto at = findings.refused.find(node.name());
    if (at == findings.refused.end()) return verdict;
    verdict.support = Support::kUnsupported;
    verdict.reason = at->second.reason();
    return verdict;
  };
}

Result<Coverage> coverage_of(const Graph& imported, const Graph& optimised, const Target& target, Precision precision) {
  HTPIPE_TRY(const Findings findings, find_obstacles(optimised, target, precision, nullptr));
  return cover(imported, optimised, target, precision, judge_by(findings));
}

}  // namespace htpipe::check
