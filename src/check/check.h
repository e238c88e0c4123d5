// The feasibility check: what a chip makes of a model, before anything is calibrated or compiled.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "check/report.h"
#include "ir/graph.h"
#include "qnn/vendor.h"
#include "target/target.h"

namespace htpipe::check {

/// A model made ready to be checked for any number of chips.
struct Model {
  Graph imported;
  Graph optimised;                    ///< behind the passes; of a quantised model the stored form
  std::vector<std::string> warnings;  ///< of the import, and nodes of a quantised model that stay in float
};

struct CheckOptions {
  Precision precision = Precision::kInt8;  ///< of activations; weights have 8 bits. A quantised model has its own.
  const qnn::Vendor* vendor = nullptr;     ///< whose validator is asked; null = nobody's
};

/// Runs the passes. Errors: those of the passes.
Result<Model> prepare(Graph imported, std::vector<std::string> warnings);

/// Judges a model on one chip. Nodes that the chip refuses are a result, no error. Errors: those of the vendor.
Result<CheckReport> check_model(const Model& model, const Target& target, const CheckOptions& options);

/// The report of a model that could not be imported because of operators that no engine has, or of values that are not
/// known before it runs; nullopt for errors of other kinds.
[[nodiscard]] std::optional<CheckReport> report_impossible(const Error& error, const std::string& model,
                                                           const Target& target, Precision precision);

}  // namespace htpipe::check
