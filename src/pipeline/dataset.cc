#include "pipeline/dataset.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "base/hash.h"
#include "quant/quantize.h"
#include "tensor/idx.h"
#include "tensor/npy.h"

namespace htpipe {
namespace {

Shape without_ones(const Shape& shape) {
  Shape result;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(result), [](std::int64_t d) { return d != 1; });
  return result;
}

Result<Tensor> read_array(const DataConfig& config, const std::filesystem::path& path, const std::string& name) {
  if (config.format == "idx") return read_idx(path);
  HTPIPE_TRY(const std::vector<NamedTensor> arrays, read_npz(path));
  std::string known;
  for (const NamedTensor& array : arrays) {
    if (array.name == name) return array.tensor;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", array.name);
  }
  return fail(
      Error(Code::kDataFormat, fmt::format("no array \"{}\"; there are: {}", name, known)).in_file(path.string()));
}

Result<std::vector<std::int64_t>> to_labels(const Tensor& tensor, std::int64_t count) {
  if (!is_integer(tensor.dtype())) {
    return fail(Code::kDataDtype, fmt::format("labels are {}, need integers", name_of(tensor.dtype())));
  }
  if (tensor.shape().size() != 1)
    return fail(Code::kDataShape, fmt::format("labels are {}", to_string(tensor.shape())));
  if (tensor.count() < count) {
    return fail(Code::kDataTooFew, fmt::format("{} labels for {} samples", tensor.count(), count));
  }
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(static_cast<std::int64_t>(tensor.real(i)));
  return labels;
}

tl::unexpected<Error> in_file(Error error, const std::filesystem::path& path) {
  if (error.place.file.empty()) error.place.file = path.string();
  return fail(std::move(error));
}

}  // namespace

Result<Dataset> Dataset::load(const DataConfig& config, const SampleFiles& files, const Graph& graph) {
  if (graph.inputs().size() != 1) {
    return fail(Code::kUnsupportedForm,
                fmt::format("the model has {} inputs; data files feed one", graph.inputs().size()));
  }
  const Value& input = *graph.inputs().front();
  HTPIPE_TRY(const Tensor stored, read_array(config, files.inputs, config.input_array));
  const auto bad = [&files](Code code, std::string message) {
    return fail(Error(code, std::move(message)).in_file(files.inputs.string()));
  };
  if (stored.dtype() != DType::kU8 && stored.dtype() != DType::kF32) {
    return bad(Code::kDataDtype, fmt::format("samples are {}, need f32 or u8", name_of(stored.dtype())));
  }
  if (input.type.shape.empty() || input.type.shape.front() != 1) {
    return bad(Code::kDataShape, fmt::format("the model takes {}: its batch must be 1", to_string(input.type.shape)));
  }
  const Shape sample(stored.shape().begin() + (stored.shape().empty() ? 0 : 1), stored.shape().end());
  if (stored.shape().empty() || without_ones(sample) != without_ones(input.type.shape)) {
    return bad(Code::kDataShape, fmt::format("samples are {}, the model's input %{} is {}", to_string(sample),
                                             input.name, to_string(input.type.shape)));
  }
  if (stored.shape().front() < files.samples) {
    return bad(Code::kDataTooFew, fmt::format("{} samples, {} asked for", stored.shape().front(), files.samples));
  }
  Dataset data;
  data.stored_ = stored;
  data.input_ = input.type;
  data.count_ = files.samples;
  data.scale_ = config.scale;
  data.offset_ = config.offset;
  if (!files.labels.empty()) {
    auto array = read_array(config, files.labels, config.labels_array);
    if (!array) return in_file(std::move(array.error()), files.labels);
    auto labels = to_labels(*array, data.count_);
    if (!labels) return in_file(std::move(labels.error()), files.labels);
    data.labels_ = std::move(*labels);
  }
  Sha256 hash;
  hash.add(fmt::format("{} {} {} {}", to_string(data.input_), data.count_, data.scale_, data.offset_));
  const auto used = static_cast<std::size_t>(data.count_ * data.input_.count()) * size_of(stored.dtype());
  hash.raw(stored.bytes().first(used));
  for (const std::int64_t label : data.labels_) hash.add(label);
  data.digest_ = hash.hex();
  return data;
}

SampleSource Dataset::floats(std::int64_t count) const {
  const std::int64_t size = input_.count();
  return {std::min(count, count_),
          [stored = stored_, type = input_, size, scale = scale_,
           offset = offset_](std::int64_t index) -> Result<std::vector<Tensor>> {
            Tensor tensor(type);
            const auto out = tensor.mutable_data<float>();
            const auto begin = static_cast<std::size_t>(index * size);
            for (std::size_t i = 0; i < out.size(); ++i) {
              const double value = stored.dtype() == DType::kU8
                                       ? static_cast<double>(stored.data<std::uint8_t>()[begin + i])
                                       : static_cast<double>(stored.data<float>()[begin + i]);
              out[i] = static_cast<float>(value * scale + offset);
            }
            std::vector<Tensor> inputs;
            inputs.push_back(std::move(tensor));
            return inputs;
          }};
}

SampleSource stored_inputs(const Graph& quantized, SampleSource floats) {
  std::vector<TensorType> types;
  for (const Value* input : quantized.inputs()) types.push_back(input->type);
  const std::int64_t count = floats.count;
  return {count, [types, source = std::move(floats)](std::int64_t index) -> Result<std::vector<Tensor>> {
            HTPIPE_TRY(std::vector<Tensor> inputs, source.get(index));
            for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i] = quant::store_as(inputs[i], types[i]);
            return inputs;
          }};
}

Result<Tensor> stack_input(const Graph& graph, std::size_t input, const SampleSource& samples) {
  TensorType type = graph.inputs()[input]->type;
  const std::size_t size = type.size_bytes();
  type.shape.front() *= samples.count;
  Tensor stacked(type);
  std::byte* out = stacked.mutable_data<std::byte>().data();
  for (std::int64_t i = 0; i < samples.count; ++i) {
    HTPIPE_TRY(const std::vector<Tensor> inputs, samples.get(i));
    std::memcpy(out + static_cast<std::size_t>(i) * size, inputs[input].bytes().data(), size);
  }
  return stacked;
}

}  // namespace htpipe
