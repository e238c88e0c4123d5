// Rnn: the simple recurrent layer h = activation(x W + h R + b), one layer, one direction. Outputs behind the end of a
// sequence are zeros. Source: ONNX RNN; QNN has no such operator.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "ops/recurrent.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

constexpr std::size_t kLengths = 5;

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_TRY(const RecurrentForm form, recurrent_form(node, 1, kLengths));
  const std::string& function = node.attributes.text("function");
  if (function != "tanh" && function != "relu") {
    return fail(Code::kUnsupportedForm, fmt::format("no function \"{}\"", function));
  }
  const DType dtype = node.type(0).dtype;
  return std::vector<TensorType>{{dtype, {form.steps, form.batch, form.hidden}, std::nullopt},
                                 {dtype, {form.batch, form.hidden}, std::nullopt}};
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const RecurrentForm form, recurrent_form(node, 1, kLengths));
  const RowWeights input_weights(node, 1, 0, form.hidden);
  const RowWeights recurrent_weights(node, 2, 0, form.hidden);
  const bool relu = node.attributes.text("function") == "relu";
  const std::size_t walk_bytes = RecurrentRun::scratch_bytes(form);
  Kernel kernel;
  kernel.scratch_bytes = walk_bytes + static_cast<std::size_t>(form.batch * form.hidden) * sizeof(float);
  kernel.run = [=](const KernelCall& call) {
    RecurrentRun run(form, call, 1);
    auto* h = reinterpret_cast<float*>(call.scratch + walk_bytes);
    const RowWeights::Product product(recurrent_weights, call);
    run.walk(input_weights, [&](std::int64_t step, const float* x) {
      product.run(run.state(), h, form.batch);
      for (std::int64_t i = 0; i < form.batch * form.hidden; ++i) {
        if (!run.active(step, i / form.hidden)) continue;
        const double sum = static_cast<double>(x[i]) + static_cast<double>(h[i]);
        run.state()[i] = static_cast<float>(relu ? std::max(form.clipped(sum), 0.0) : form.tanh(sum));
      }
    });
  };
  return kernel;
}

}  // namespace

const OpDef& rnn() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Rnn";
    def.doc = "Simple recurrent layer, one direction: all states, last state.";
    def.operands = {{"input"},
                    {"input_weights", Role::kWeight},
                    {"recurrent_weights", Role::kWeight},
                    {"bias", Role::kBias, true},
                    {"initial_h", Role::kData, true},
                    {"sequence_lens", Role::kData, true}};
    // Not "activation": that attribute means a clamp that is fused behind an operator.
    def.attributes = {
        direction_attribute(), clip_attribute(), {"function", std::string("tanh"), false, "tanh or relu"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.macs = [](const NodeView& node, std::span<const TensorType* const> results) {
      return results[0]->count() * (node.type(1).shape[1] + node.type(2).shape[1]);
    };
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
