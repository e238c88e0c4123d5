#include "cli/run_text.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/table.h"
#include "pipeline/gates.h"

namespace htpipe::cli {
namespace {

/// The value at a path of keys; null when there is none.
const Json& at(const Json& json, std::initializer_list<const char*> keys) {
  static const Json none;
  const Json* value = &json;
  for (const char* key : keys) {
    if (!value->is_object()) return none;
    const auto found = value->find(key);
    if (found == value->end()) return none;
    value = &*found;
  }
  return *value;
}

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : "-"; }

std::string percent(const Json& share) {
  return share.is_number() ? fmt::format("{:.2f} %", 100.0 * share.get<double>()) : "-";
}

std::string bytes(const Json& size) {
  return size.is_number_unsigned() || size.is_number_integer() ? human_bytes(size.get<std::uint64_t>()) : "-";
}

std::string plan_text(const Json& plan) {
  std::string text = fmt::format("Plan for {} (nothing is written)\n", text_of(at(plan, {"model"})));
  std::string targets;
  for (const Json& target : at(plan, {"targets"})) targets += (targets.empty() ? "" : ", ") + text_of(target);
  std::string stages;
  for (const Json& stage : at(plan, {"stages"})) stages += (stages.empty() ? "" : ", ") + text_of(stage);
  return text +
         fmt::format("  targets: {}\n  stages:  {}\n  output:  {}\n", targets, stages, text_of(at(plan, {"output"})));
}

std::string stages_text(const Json& stages) {
  Table table({"stage", "target", "time>", "", "result"});
  for (const Json& stage : stages) {
    const Json& time = at(stage, {"time_ms"});
    const Json& target = at(stage, {"target"});
    table.add({text_of(at(stage, {"stage"})), target.is_string() ? target.get<std::string>() : "",
               time.is_number() ? fmt::format("{:.2f} s", time.get<double>() / 1000.0) : "-",
               at(stage, {"cached"}) == Json(true) ? "cached" : "", text_of(at(stage, {"result"}))});
  }
  return table.empty() ? std::string() : table.text() + "\n";
}

std::string gates_of(const Json& gates) {
  std::string text;
  for (const auto& [name, verdict] : gates.items()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, text_of(verdict));
  }
  return text;
}

std::string worst_of(const Json& worst) {
  if (!worst.is_object()) return "-";
  return fmt::format("{:.5f} {}", judged_cosine(worst), text_of(at(worst, {"layer"})));
}

std::string targets_text(const Json& targets) {
  Table table(
      {"target", "on HTP>", "float>", "quantised>", "emulator>", "worst layer", "raised>", "dlc>", "binary>", "gates"});
  for (const Json& target : targets) {
    const Json& raised = at(target, {"raised"});
    table.add({text_of(at(target, {"target"})), percent(at(target, {"coverage", "htp_op_coverage"})),
               percent(at(target, {"task", "float_top1"})), percent(at(target, {"task", "engine_top1"})),
               percent(at(target, {"task", "emulator", "emulator_top1"})), worst_of(at(target, {"worst_layer"})),
               std::to_string(raised.size()), bytes(at(target, {"dlc_bytes"})),
               bytes(at(target, {"context_binary_bytes"})), gates_of(at(target, {"gates"}))});
  }
  return table.empty() ? std::string() : table.text();
}

std::string next_command(const Json& targets) {
  for (const Json& target : targets) {
    const Json& folder = at(target, {"registry"});
    if (!folder.is_string()) continue;
    if (at(target, {"dlc_bytes"}).is_null()) return fmt::format("htpipe info {}/graph.htir", folder.get<std::string>());
    return fmt::format("htpipe info {}/model.dlc", folder.get<std::string>());
  }
  return {};
}

}  // namespace

std::string run_text(const Json& report) {
  if (at(report, {"dry_run"}) == Json(true)) return plan_text(report);
  const Json& targets = at(report, {"targets"});
  std::string text = stages_text(at(report, {"stages"})) + targets_text(targets);
  for (const Json& target : targets) {
    for (const Json& failure : at(target, {"failures"})) {
      text += fmt::format("\nFailed gate of {}: {}", text_of(at(target, {"target"})), text_of(failure));
    }
  }
  for (const Json& warning : at(report, {"warnings"})) text += fmt::format("\nWarning: {}", text_of(warning));
  text += fmt::format("\n{}: {}, report in {}/report.json\n", text_of(at(report, {"status"})),
                      text_of(at(report, {"model"})), text_of(at(report, {"output"})));
  for (const Json& target : targets) {
    text += fmt::format("  {}: {}\n", text_of(at(target, {"target"})), text_of(at(target, {"registry"})));
  }
  const std::string next = next_command(targets);
  return next.empty() ? text : text + "Next: " + next + "\n";
}

}  // namespace htpipe::cli
