// Gru: one layer, one direction, over whole sequences; gates in the order update, reset, hidden (ONNX's; the importers
// reorder PyTorch's, which has linear_before_reset). Outputs behind the end of a sequence are zeros. Source: ONNX GRU;
// QNN's Gru takes each gate's weights as an operand of its own, so there is no lowering yet.
#include <algorithm>

#include "ops/recurrent.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

constexpr std::size_t kLengths = 5;

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_TRY(const RecurrentForm form, recurrent_form(node, 3, kLengths));
  const DType dtype = node.type(0).dtype;
  return std::vector<TensorType>{{dtype, {form.steps, form.batch, form.hidden}, std::nullopt},
                                 {dtype, {form.batch, form.hidden}, std::nullopt}};
}

Result<Kernel> float_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const RecurrentForm form, recurrent_form(node, 3, kLengths));
  const std::int64_t n = form.hidden;
  const RowWeights input_weights(node, 1, 0, form.width());
  const RowWeights gate_weights(node, 2, 0, 2 * n);
  const RowWeights hidden_weights(node, 2, 2 * n, n);
  const bool linear_first = node.attributes.flag("linear_before_reset");
  const std::size_t walk_bytes = RecurrentRun::scratch_bytes(form);
  Kernel kernel;
  // Behind the walk's: shares of the state in the gates [batch, 2n] and in the hidden gate [batch, n], reset state.
  kernel.scratch_bytes = walk_bytes + static_cast<std::size_t>(4 * form.batch * n) * sizeof(float);
  kernel.run = [=](const KernelCall& call) {
    RecurrentRun run(form, call, linear_first ? 2 : 3);
    auto* gates = reinterpret_cast<float*>(call.scratch + walk_bytes);
    float* hidden = gates + form.batch * 2 * n;
    float* reset_state = hidden + form.batch * n;
    const float* hidden_bias = form.has_bias && linear_first ? call.in<float>(3) + form.width() + 2 * n : nullptr;
    const RowWeights::Product gate_product(gate_weights, call);
    const RowWeights::Product hidden_product(hidden_weights, call);
    run.walk(input_weights, [&](std::int64_t step, const float* x) {
      gate_product.run(run.state(), gates, form.batch);
      for (std::int64_t i = 0; i < form.batch * 2 * n; ++i) {
        const double sum =
            static_cast<double>(x[i / (2 * n) * form.width() + i % (2 * n)]) + static_cast<double>(gates[i]);
        gates[i] = static_cast<float>(form.sigmoid(sum));
      }
      for (std::int64_t i = 0; i < form.batch * n && !linear_first; ++i)
        reset_state[i] = gates[i / n * 2 * n + n + i % n] * run.state()[i];
      hidden_product.run(linear_first ? run.state() : reset_state, hidden, form.batch);
      for (std::int64_t image = 0; image < form.batch; ++image) {
        if (!run.active(step, image)) continue;
        for (std::int64_t j = 0; j < n; ++j) {
          const auto update = static_cast<double>(gates[image * 2 * n + j]);
          auto share = static_cast<double>(hidden[image * n + j]);
          if (hidden_bias != nullptr) share += static_cast<double>(hidden_bias[j]);
          if (linear_first) share *= static_cast<double>(gates[image * 2 * n + n + j]);
          const double next = form.tanh(static_cast<double>(x[image * form.width() + 2 * n + j]) + share);
          float& state = run.state()[image * n + j];
          state = static_cast<float>((1 - update) * next + update * static_cast<double>(state));
        }
      }
    });
  };
  return kernel;
}

}  // namespace

const OpDef& gru() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Gru";
    def.doc = "Gated recurrent unit, one layer and direction: all states, last state.";
    def.operands = {{"input"},
                    {"input_weights", Role::kWeight},
                    {"recurrent_weights", Role::kWeight},
                    {"bias", Role::kBias, true},
                    {"initial_h", Role::kData, true},
                    {"sequence_lens", Role::kData, true}};
    def.attributes = {direction_attribute(),
                      clip_attribute(),
                      {"linear_before_reset", false, false, "the reset gate acts behind the product, as in PyTorch"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.macs = [](const NodeView& node, std::span<const TensorType* const> results) {
      return results[0]->count() * 3 * (node.type(1).shape[1] + node.type(2).shape[1]);
    };
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
