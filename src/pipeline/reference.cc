#include "pipeline/reference.h"

#include <fmt/core.h>

#include <algorithm>

#include "accuracy/metrics.h"
#include "exec/program.h"
#include "tensor/npy.h"

namespace htpipe {
namespace {

/// The arrays of a reference file that is there to judge this very model.
struct Reference {
  Tensor logits;
  std::string model_sha;
};

Result<Reference> read_reference(const std::filesystem::path& file) {
  HTPIPE_TRY(const std::vector<NamedTensor> arrays, read_npz(file));
  Reference reference;
  for (const NamedTensor& array : arrays) {
    if (array.name == "logits") reference.logits = array.tensor;
    if (array.name == "model_sha256" && array.tensor.dtype() == DType::kU8) {
      for (const std::uint8_t digit : array.tensor.data<std::uint8_t>())
        reference.model_sha += static_cast<char>(digit);
    }
  }
  if (reference.logits.empty() || reference.logits.dtype() != DType::kF32 || reference.logits.shape().size() < 2) {
    return fail(Error(Code::kDataFormat, "no float32 array \"logits\" with one row per sample").in_file(file.string()));
  }
  return reference;
}

}  // namespace

Result<std::string> compare_reference(Session& session, const std::filesystem::path& file) {
  const GateConfig& gates = session.config.gates;
  HTPIPE_TRY(const Reference reference, read_reference(file));
  const auto bad = [&file](Code code, std::string message) {
    return fail(Error(code, std::move(message)).in_file(file.string()));
  };
  if (!reference.model_sha.empty() && reference.model_sha != session.model_sha) {
    return bad(Code::kReferenceMismatch, "it was made with another model file");
  }
  const std::int64_t samples = gates.reference_samples;
  const auto size = static_cast<std::size_t>(session.optimised.outputs().front()->type.count());
  if (reference.logits.shape().front() < samples || session.evaluation.count() < samples) {
    return bad(Code::kDataTooFew, fmt::format("{} rows of outputs and {} samples, {} are to be compared",
                                              reference.logits.shape().front(), session.evaluation.count(), samples));
  }
  if (static_cast<std::size_t>(reference.logits.count() / reference.logits.shape().front()) != size) {
    return bad(Code::kDataShape,
               fmt::format("outputs are {}, the model gives {}", to_string(reference.logits.shape()), size));
  }
  HTPIPE_TRY(const Program program, Program::make(session.optimised, 0));
  Program::Workspace workspace(program);
  const SampleSource source = session.evaluation.floats(samples);
  accuracy::Comparison comparison;
  for (std::int64_t i = 0; i < samples; ++i) {
    HTPIPE_TRY(const std::vector<Tensor> inputs, source.get(i));
    HTPIPE_TRY(const std::vector<Tensor> outputs, program.run(workspace, inputs));
    comparison.add(reference.logits.data<float>().subspan(static_cast<std::size_t>(i) * size, size),
                   outputs.front().data<float>());
  }
  if (!(comparison.max_error() <= gates.reference_tolerance)) {
    return bad(Code::kReferenceMismatch, fmt::format("outputs differ from PyTorch's by {:.3g}, allowed is {:.3g}",
                                                     comparison.max_error(), gates.reference_tolerance));
  }
  return fmt::format("largest difference {:.2g} on {} samples", comparison.max_error(), samples);
}

}  // namespace htpipe
