// Samples for a graph from a file that a user names: .npz, .npy, or a list of raw files as the vendor's tools take it.
// Invariant: names, types, shapes and sizes are checked before anything runs; data are mapped, not read.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "exec/samples.h"
#include "tensor/tensor.h"

namespace htpipe {

/// An input or output of a model as the outside sees it.
struct Port {
  std::string name;
  TensorType type;
};

struct InputFile {
  /// Tensors of the ports' types. Real numbers are stored as the port stores them (integers by its encoding, float16);
  /// integers without an encoding are converted where they fit; what has the port's own type is taken as it is.
  SampleSource samples;
  bool is_list = false;
  std::vector<std::string> selected;  ///< names in the lines of a list that begin with # or %
};

/// Reads `path` for `inputs`. What the file is, its first bytes tell:
/// - .npz: an array per input, by name; first dimension = samples × the input's first dimension, the others equal (an
///   input without dimensions: one element a sample);
/// - .npy: the same for the only input;
/// - else a text with a line per sample: `name:=path` for each input with spaces between, or a bare path for the only
///   one. A raw file holds one sample, in float32 or in the input's own type, whichever its size is. Relative paths
///   start at the list's folder. Lines that begin with # or % name outputs that are wanted; empty lines mean nothing.
/// Errors: data-shape (also a missing or an unknown input), data-dtype, data-not-finite, data-too-few (no samples),
/// data-format, file-missing, file-truncated, those of the readers; samples are read when they are asked for.
Result<InputFile> read_inputs(const std::filesystem::path& path, const std::vector<Port>& inputs);

}  // namespace htpipe
