// Where computed values of samples go: an .npz that grows, or folders of raw files as the vendor's tools write them.
// Invariant: nothing half-written stands under a final name, and no more than one value is in memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "pipeline/input_file.h"
#include "tensor/tensor.h"

namespace htpipe {

/// The type that a value is shown in: float32 for real numbers, whatever they are stored in; the stored type with
/// `native` (float32 instead of bfloat16, which NumPy lacks). Integers that stand for themselves keep their type.
[[nodiscard]] TensorType shown_type(const TensorType& type, bool native);
[[nodiscard]] Tensor shown(const Tensor& value, bool native);

/// Samples come one behind the other; within a sample, values come in any order, each once.
class ValueSink {
 public:
  virtual ~ValueSink() = default;
  ValueSink() = default;
  ValueSink(const ValueSink&) = delete;
  ValueSink& operator=(const ValueSink&) = delete;
  virtual Status add(std::size_t port, const Tensor& value) = 0;
  virtual Status end_sample() = 0;
  virtual Status finish() = 0;
};

/// An .npz with an array per port: [samples × first dimension, …]; [samples] where the port has no dimensions.
Result<std::unique_ptr<ValueSink>> npz_sink(const std::filesystem::path& path, const std::vector<Port>& ports,
                                            std::int64_t samples, bool native);

/// folder/Result_N/<file name>.raw for sample N.
Result<std::unique_ptr<ValueSink>> raw_sink(const std::filesystem::path& folder, const std::vector<Port>& ports,
                                            bool native);
/// The file names of raw_sink without the folder: the ports' names, with '_' for what no file name should have.
[[nodiscard]] std::vector<std::string> raw_names(const std::vector<Port>& ports);

}  // namespace htpipe
