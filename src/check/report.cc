#include "check/report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace htpipe::check {
namespace {

Json operands_json(const std::vector<Operand>& operands) {
  Json list = Json::array();
  for (const Operand& operand : operands) list.push_back({{"name", operand.name}, {"type", operand.type}});
  return list;
}

Json to_json(const NodeReport& node) {
  Json json = {{"node", node.node}, {"op", node.op}, {"layer", node.layer}};
  if (!node.line.empty()) json["line"] = node.line;
  json["fate"] = name_of(node.fate);
  if (!node.reason.empty()) json["reason"] = node.reason;
  if (!node.rule_reason.empty()) json["rule"] = node.rule_reason;
  if (!node.vendor_reason.empty()) json["vendor"] = node.vendor_reason;
  json["part"] = node.part < 0 ? Json(nullptr) : Json(node.part);
  json["inputs"] = operands_json(node.inputs);
  json["outputs"] = operands_json(node.outputs);
  return json;
}

Json to_json(const Part& part) {
  return {{"engine", part.on_chip ? "htp" : "cpu"},
          {"nodes", part.nodes},
          {"inputs", part.inputs},
          {"outputs", part.outputs}};
}

Json to_json(const Cut& cut) {
  return {{"value", cut.value},
          {"type", cut.type},
          {"from", cut.from},
          {"to", cut.to},
          {"chip_bytes", cut.chip_bytes},
          {"other_bytes", cut.other_bytes},
          {"moved_bytes", cut.moved_bytes},
          {"converted_elements", cut.converted_elements}};
}

template <typename T>
Json list_json(const std::vector<T>& items) {
  Json list = Json::array();
  for (const T& item : items) list.push_back(to_json(item));
  return list;
}

}  // namespace

std::string_view name_of(Fate fate) {
  switch (fate) {
    case Fate::kNative:
      return "native";
    case Fate::kRewritten:
      return "rewritten";
    case Fate::kFallback:
      return "fallback";
    case Fate::kImpossible:
      return "impossible";
  }
  return "";
}

std::int64_t CheckReport::count(Fate fate) const {
  return std::count_if(nodes.begin(), nodes.end(), [fate](const NodeReport& node) { return node.fate == fate; });
}

Json to_json(const CheckReport& report) {
  Json json = {{"model", report.model},
               {"target", report.target},
               {"precision", name_of(report.precision)},
               {"feasible", report.feasible},
               {"vendor", report.vendor.empty() ? Json(nullptr) : Json(report.vendor)},
               {"native", report.count(Fate::kNative)},
               {"rewritten", report.count(Fate::kRewritten)},
               {"fallback", report.count(Fate::kFallback)},
               {"impossible", report.count(Fate::kImpossible)}};
  json["parts"] = list_json(report.parts);
  json["cuts"] = list_json(report.cuts);
  json["memory"] = report.memory ? to_json(*report.memory) : Json(nullptr);
  json["advice"] = list_json(report.advice);
  json["warnings"] = report.warnings;
  json["nodes"] = list_json(report.nodes);
  return json;
}

}  // namespace htpipe::check
