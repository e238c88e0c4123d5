#include "check/advice.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "check/advice/adviser.h"

namespace htpipe::check {

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "";
}

std::string_view name_of(Fix fix) {
  switch (fix) {
    case Fix::kNone:
      return "none";
    case Fix::kAvailable:
      return "available";
    case Fix::kApplied:
      return "applied";
  }
  return "";
}

const std::vector<AdviceRule>& advice_rules() {
  static const std::vector<AdviceRule> rules = {
#define HTPIPE_ADVICE(id, severity, found, why, advice, fix, source) \
  {id, Severity::severity, found, why, advice, fix, source},
#include "check/advice_rules.inc"
#undef HTPIPE_ADVICE
  };
  return rules;
}

std::vector<Advice> advise(const Subject& subject, const MemoryReport& memory) {
  Adviser adviser(subject, memory);
  advise_convolutions(adviser);
  advise_operators(adviser);
  advise_types(adviser);
  advise_interface(adviser);
  advise_memory(adviser);
  std::vector<Advice> list = adviser.take();
  std::stable_sort(list.begin(), list.end(), [](const Advice& a, const Advice& b) {
    return a.severity != b.severity ? a.severity > b.severity : a.rule < b.rule;
  });
  return list;
}

Json to_json(const Advice& advice) {
  Json json = {{"rule", advice.rule},       {"severity", name_of(advice.severity)},
               {"node", advice.node},       {"layer", advice.layer},
               {"line", advice.line},       {"issue", advice.issue},
               {"text", advice.text},       {"gain", nullptr},
               {"fix", name_of(advice.fix)}};
  if (advice.gain) json["gain"] = {{"amount", advice.gain->amount}, {"unit", advice.gain->unit}};
  if (!advice.fix_info.empty()) json["fix_info"] = advice.fix_info;
  return json;
}

}  // namespace htpipe::check
