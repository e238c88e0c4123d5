#include "pipeline/layers.h"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/parallel.h"
#include "exec/program.h"
#include "pipeline/dataset.h"
#include "quant/quantize.h"

namespace htpipe {
namespace {

/// Sample `index` of a stacked tensor.
Tensor slice(const Tensor& stacked, const TensorType& type, std::int64_t index) {
  const std::byte* data = stacked.bytes().data() + static_cast<std::size_t>(index) * type.size_bytes();
  return Tensor(type, nullptr, data);
}

Json metrics_json(const accuracy::Comparison& comparison) {
  const double snr = comparison.snr_db();
  return {{"cosine", comparison.cosine()},
          {"snr_db", std::isfinite(snr) ? Json(snr) : Json(nullptr)},
          {"max_error", comparison.max_error()},
          {"reference_max", comparison.reference_max()},
          {"elements", comparison.count()}};
}

Result<std::vector<LayerResult>> layers_of(const Graph& reference, const Graph& quantized,
                                           const std::map<std::string, Tensor>* vendor_outputs, std::int64_t samples) {
  std::vector<LayerResult> layers;
  for (const auto& node : quantized.nodes()) {
    for (const Value* value : node->results) {
      const Value* twin = reference.find_value(value->name);
      if (twin == nullptr || twin->producer == nullptr) continue;  // a conversion between precisions
      LayerResult layer{value->name, node->layer(), std::string(node->op->name), {}, {}, std::nullopt, std::nullopt};
      const DType dtype = value->type.dtype;
      layer.precision = dtype == DType::kF16 ? "fp16" : dtype == DType::kU16 ? "int16" : "int8";
      if (vendor_outputs != nullptr) {
        const auto at = vendor_outputs->find(value->name);
        if (at != vendor_outputs->end()) {
          if (at->second.dtype() != dtype || at->second.count() != samples * value->type.count()) {
            return fail(Error(Code::kVendorMismatch, fmt::format("the emulator gives {}, the graph says {}",
                                                                 to_string(at->second.type()), to_string(value->type)))
                            .at_node(value->name));
          }
          layer.vendor.emplace();
          layer.agreement.emplace();
        }
      }
      layers.push_back(std::move(layer));
    }
  }
  return layers;
}

}  // namespace

Result<std::vector<LayerResult>> compare_layers(const Graph& reference, const Graph& quantized, int htp_version,
                                                const SampleSource& floats,
                                                const std::map<std::string, Tensor>* vendor_outputs) {
  HTPIPE_TRY(std::vector<LayerResult> layers, layers_of(reference, quantized, vendor_outputs, floats.count));
  HTPIPE_TRY(const Program float_program, Program::make(reference, htp_version));
  HTPIPE_TRY(const Program program, Program::make(quantized, htp_version));
  Program::Workspace float_workspace(float_program, thread_count());
  Program::Workspace workspace(program, thread_count());
  const SampleSource stored = stored_inputs(quantized, floats);
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < layers.size(); ++i) index[layers[i].value] = i;

  for (std::int64_t sample = 0; sample < floats.count; ++sample) {
    std::vector<std::vector<float>> truth(layers.size());
    HTPIPE_TRY(const std::vector<Tensor> float_inputs, floats.get(sample));
    HTPIPE_CHECK_OK(float_program.run(float_workspace, float_inputs, [&](const Value& value, const Tensor& tensor) {
      if (const auto at = index.find(value.name); at != index.end()) truth[at->second] = to_floats(tensor);
    }));
    HTPIPE_TRY(const std::vector<Tensor> inputs, stored.get(sample));
    HTPIPE_CHECK_OK(program.run(workspace, inputs, [&](const Value& value, const Tensor& tensor) {
      const auto at = index.find(value.name);
      if (at == index.end()) return;
      LayerResult& layer = layers[at->second];
      layer.ours.add(truth[at->second], to_floats(tensor));
      if (!layer.vendor) return;
      const Tensor theirs = slice(vendor_outputs->at(value.name), value.type, sample);
      layer.vendor->add(truth[at->second], to_floats(theirs));
      layer.agreement->add(tensor, theirs);
    }));
  }
  return layers;
}

Json to_json(const LayerResult& layer) {
  Json json = {{"value", layer.value}, {"layer", layer.layer}, {"op", layer.op}, {"precision", layer.precision}};
  json["engine"] = metrics_json(layer.ours);
  json["emulator"] = layer.vendor ? metrics_json(*layer.vendor) : Json(nullptr);
  if (layer.agreement) {
    json["agreement"] = {{"compared", layer.agreement->compared},
                         {"equal", layer.agreement->equal},
                         {"within_one_step", layer.agreement->within_one},
                         {"max_steps", layer.agreement->max_steps}};
  } else {
    json["agreement"] = nullptr;
  }
  return json;
}

}  // namespace htpipe
