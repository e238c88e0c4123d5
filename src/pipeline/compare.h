// A composed QNN graph on both engines: ours for the chip's arithmetic, and the vendor's emulator of the chip.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accuracy/metrics.h"
#include "base/json.h"
#include "base/result.h"
#include "exec/samples.h"
#include "qnn/graph_spec.h"
#include "qnn/vendor.h"
#include "target/target.h"

namespace htpipe {

struct ValueAgreement {
  std::string value;
  std::string op;
  TensorType type;
  accuracy::StepAgreement steps;  ///< stored values: integers by value, float16 by its last place; none of others
  accuracy::Comparison reals;     ///< ours against the emulator's
};

struct EngineAgreement {
  std::vector<ValueAgreement> values;  ///< every value that an operator computes, in order of execution
  std::int64_t samples = 0;
  [[nodiscard]] accuracy::StepAgreement total() const;
};

/// Runs the graph on both engines, each from the inputs on, and compares every value that both give. `inputs` come in
/// the order of the graph's inputs, in their types. Errors: those of raise_from_qnn, of our engine and of the vendor;
/// vendor-mismatch; interrupted.
Result<EngineAgreement> compare_engines(const qnn::Vendor& vendor, const qnn::GraphSpec& spec, const Target& target,
                                        const SampleSource& inputs);

[[nodiscard]] Json to_json(const EngineAgreement& agreement);

}  // namespace htpipe
