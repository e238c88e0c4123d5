// Samples and labels from the files that a pipeline names, as inputs of a graph.
// Invariant: shapes, types and counts are checked when a data set is loaded, before anything runs on it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/samples.h"
#include "ir/graph.h"
#include "pipeline/config.h"
#include "tensor/tensor.h"

namespace htpipe {

class Dataset {
 public:
  /// Loads the samples for the one float32 input of `graph`, and labels when the files name them.
  /// Errors: data-shape, data-dtype, data-too-few, data-format, each with the file; those of the readers.
  static Result<Dataset> load(const DataConfig& config, const SampleFiles& files, const Graph& graph);

  [[nodiscard]] std::int64_t count() const { return count_; }
  /// The first `count` samples as float32 graph inputs.
  [[nodiscard]] SampleSource floats(std::int64_t count) const;
  /// Class of every sample; empty when there are no labels.
  [[nodiscard]] std::span<const std::int64_t> labels() const { return labels_; }
  /// SHA-256 over the stored values that are used, the scaling and the labels.
  [[nodiscard]] const std::string& digest() const { return digest_; }

 private:
  Tensor stored_;
  TensorType input_;
  std::vector<std::int64_t> labels_;
  std::int64_t count_ = 0;
  double scale_ = 1;
  double offset_ = 0;
  std::string digest_;
};

/// The same samples stored as the inputs of a quantised graph.
[[nodiscard]] SampleSource stored_inputs(const Graph& quantized, SampleSource floats);

/// All samples of one graph input in one tensor, first dimension = samples × the input's first dimension.
Result<Tensor> stack_input(const Graph& graph, std::size_t input, const SampleSource& samples);

}  // namespace htpipe
