// Runs samples through a graph of the HTP backend, which on x86 emulates the chip. Worker process only.
// Invariant: every byte the library reads or writes lies in a buffer of exactly the size that the graph declares.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/io.h"
#include "base/result.h"
#include "qnn/composer.h"
#include "qnn/loader.h"
#include "qnn/steps.h"

namespace htpipe::qnn {

/// Samples of one input, one after the other, and the type of the whole.
struct SampleFile {
  TensorType type;
  std::shared_ptr<const MappedFile> data;
};

/// How many samples `inputs` hold for `graph`. Errors: data-shape, data-dtype (a missing, unknown or unfitting input).
Result<std::int64_t> count_samples(const GraphHandle& graph, const std::map<std::string, SampleFile>& inputs);

/// Executes samples [first, end) and writes output number i of sample s at s times its size into folder/output_i.bin,
/// which several workers may share. Errors: vendor-error naming the sample, output-unwritable.
Status run_samples(const abi::BackendTable& api, const GraphHandle& graph,
                   const std::map<std::string, SampleFile>& inputs, std::int64_t first, std::int64_t end,
                   const std::filesystem::path& folder, Steps& steps);

}  // namespace htpipe::qnn
