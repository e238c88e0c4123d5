// What all targets of one run share: the model, its data and the stage bookkeeping.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "ir/graph.h"
#include "pipeline/cache.h"
#include "pipeline/config.h"
#include "pipeline/dataset.h"
#include "qnn/vendor.h"
#include "quant/calibrate.h"
#include "target/target.h"

namespace htpipe {

/// What stages depend on of a chip: a corrected data file makes old results worthless.
[[nodiscard]] std::string chip_key(const Target& target);

/// Milliseconds since an arbitrary start, monotonic.
[[nodiscard]] double now_ms();

struct Session {
  const PipelineConfig& config;
  Cache& cache;
  std::string program_digest;  ///< of the running program: a new build trusts no old result
  std::string model_sha;
  std::string producer;  ///< of the model file, for instance "torch 2.13.0"; empty when unknown
  const Graph& imported;
  const Graph& optimised;
  std::string graph_digest;  ///< of the optimised graph
  const Dataset& calibration;
  const Dataset& evaluation;
  quant::Ranges ranges;
  std::vector<std::int64_t> float_classes;  ///< of every evaluation sample
  std::optional<qnn::Vendor> vendor;        ///< absent = not installed
  Json vendor_versions;                     ///< null without vendor
  std::vector<StageRecord> stages;
  std::vector<std::string> warnings;

  /// Digest of a stage's inputs: program, and the parts given.
  [[nodiscard]] std::string key(const std::vector<std::string>& parts) const;
  /// Runs `body` as a named stage: times it, adds the stage to an error, records it. `body` returns the result line.
  template <typename Body>
  Status stage(const std::string& name, const std::string& target, Body body) {
    const double begin = now_ms();
    announce(name, target);
    cache.begin_stage();
    Result<std::string> line = body();
    if (!line) return fail(in_stage(std::move(line.error()), name, target));
    stages.push_back({name, target, *line, now_ms() - begin, cache.last_was_cached()});
    return {};
  }

 private:
  static void announce(const std::string& name, const std::string& target);
  static Error in_stage(Error error, const std::string& name, const std::string& target);
};

}  // namespace htpipe
