// Many small graphs in one run of the vendor's emulator.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "ir/graph.h"
#include "qnn/vendor.h"

namespace htpipe::conformance {

/// A lowered graph and its inputs, in the order of the graph's inputs.
struct Job {
  std::string label;
  const Graph* graph;
  std::vector<Tensor> inputs;
};

/// What the emulator computed for one job: the graph's outputs by name, or why there are none.
using Answer = Result<std::map<std::string, Tensor>>;

/// Runs all jobs on the chip `soc_model`, as independent parts of one graph. When that fails, each job runs alone, so
/// that the error stands at the job that causes it.
[[nodiscard]] std::vector<Answer> run_on_vendor(const qnn::Vendor& vendor, std::uint32_t soc_model,
                                                const std::vector<Job>& jobs);

}  // namespace htpipe::conformance
