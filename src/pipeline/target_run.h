// One target of a run: quantise, compile, emulate, judge, and raise precision until the gates pass or nothing is left.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/session.h"
#include "quant/quantize.h"
#include "target/target.h"

namespace htpipe {

struct TargetOutcome {
  Target target;
  Json coverage;  ///< operators: native, rewritten, unsupported, by our rules and by the vendor's validator
  Json rounds;    ///< what each round of the gate loop found and raised
  Json layers;    ///< rows of layers.h for the final precision
  Json task;      ///< top-1 figures
  Json gates;     ///< {"layer": "PASS", "task": "PASS", "engine": "PASS", "WARN" or "not judged"}
  Json context;   ///< what was read back from the context binary; null without vendor
  std::vector<std::string> failures;  ///< one sentence per failed gate
  std::optional<Graph> quantized;
  quant::QuantizeOptions precision;
  std::filesystem::path dlc;  ///< empty without vendor
  std::filesystem::path context_binary;
  [[nodiscard]] bool passed() const { return failures.empty(); }
};

/// Errors: those of the stages. A failed gate is no error; it is told by `failures`.
Result<TargetOutcome> run_target(Session& session, const Target& target);

}  // namespace htpipe
