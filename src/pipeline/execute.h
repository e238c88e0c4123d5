// Execution of samples on our engines and on the vendor's emulator, every wanted value going where it is wanted.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "exec/samples.h"
#include "ir/graph.h"
#include "pipeline/value_sink.h"
#include "qnn/vendor.h"
#include "target/target.h"

namespace htpipe {

/// A value that goes to a sink.
struct Wanted {
  Port port;
  ValueSink* sink;
  std::size_t index;  ///< of the port in the sink
};

struct ExecutionTimes {
  double prepare_ms = 0;             ///< memory plan and kernels; on the emulator: composing and compiling
  std::vector<double> image_ms;      ///< of each sample; on the emulator the mean of each batch
  std::size_t activation_bytes = 0;  ///< our engines: the arena
  std::size_t scratch_bytes = 0;     ///< our engines: of all threads
  [[nodiscard]] double median_image_ms() const;
};

[[nodiscard]] qnn::DeviceChoice device_of(const Target& target);

/// Inputs or outputs of a graph.
[[nodiscard]] std::vector<Port> ports_of(const std::vector<Value*>& values);

/// Runs all samples on our engine, one at a time on all threads. Errors: those of the engine and of the sinks,
/// interrupted.
Result<ExecutionTimes> execute_ours(const Graph& graph, int htp_version, const SampleSource& samples,
                                    const std::vector<Wanted>& wanted);

/// Runs all samples on the emulator, in batches that fit into memory. `request` says what is run and on which chip;
/// inputs, natives and progress are set here. Wanted values that are `inputs` are the samples themselves.
/// Errors: those of the vendor and of the sinks; vendor-mismatch when it gives no such value, or one of another type.
Result<ExecutionTimes> execute_emulator(const qnn::Vendor& vendor, qnn::ExecuteRequest request,
                                        const std::vector<Port>& inputs, const SampleSource& samples,
                                        const std::vector<Wanted>& wanted);

/// The same on the emulator of `target`, of a graph (lowered here) or, where that is null, of a DLC or context binary.
/// Values that are no `outputs` of it make every intermediate value an output.
Result<ExecutionTimes> execute_on_chip(const Graph* graph, const std::filesystem::path& file, const Target& target,
                                       const std::vector<Port>& inputs, const std::vector<Port>& outputs,
                                       const SampleSource& samples, const std::vector<Wanted>& wanted);

}  // namespace htpipe
