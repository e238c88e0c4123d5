#include "check/advice.h"

#include <nlohmann/json.hpp>

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

std::vector<Advice> advise(const Subject& subject) {
  std::vector<Advice> list;
  for (const auto& node : subject.optimised.nodes()) {
    if (!node->is("Prelu")) continue;
    Advice advice;
    advice.rule = "prelu";
    advice.node = node->name();
    advice.layer = node->layer();
    advice.line = node->source.line;
    advice.issue = "PReLU is an operator of its own on the chip";
    advice.text = "A ReLU is computed with the convolution in front of it; train with ReLU where accuracy allows it.";
    advice.gain = Gain{2.0 * static_cast<double>(node->result()->type.count()), "elements read and written"};
    list.push_back(std::move(advice));
  }
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
