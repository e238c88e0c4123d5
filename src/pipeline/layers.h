// Layer by layer: a quantised graph against its float reference, on our engine and on the vendor's emulator.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accuracy/metrics.h"
#include "base/json.h"
#include "base/result.h"
#include "exec/samples.h"
#include "ir/graph.h"

namespace htpipe {

/// One computed value of the graph.
struct LayerResult {
  std::string value;  ///< name in the graph and in the artifact
  std::string layer;  ///< module path in the user's model
  std::string op;
  std::string precision;  ///< "int8", "int16", "fp16"
  accuracy::Comparison ours;
  std::optional<accuracy::Comparison> vendor;
  std::optional<accuracy::StepAgreement> agreement;  ///< ours against the vendor's stored values

  /// What the gate judges: the vendor's emulator where it ran, else our engine.
  [[nodiscard]] const accuracy::Comparison& judged() const { return vendor ? *vendor : ours; }
};

/// Compares every value that both graphs compute. `vendor_outputs` (value name → all samples, stacked) may be null.
/// Errors: those of the engines; vendor-mismatch when an output of the vendor has another type than the graph says.
Result<std::vector<LayerResult>> compare_layers(const Graph& reference, const Graph& quantized, int htp_version,
                                                const SampleSource& floats,
                                                const std::map<std::string, Tensor>* vendor_outputs);

[[nodiscard]] Json to_json(const LayerResult& layer);

}  // namespace htpipe
