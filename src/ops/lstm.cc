// Lstm: one layer, one direction, over whole sequences; gates in the order input, output, forget, cell (ONNX's; the
// importers reorder PyTorch's). Outputs behind the end of a sequence are zeros. Source: ONNX LSTM; QNN's Lstm takes each
// gate's weights as an operand of its own, so there is no lowering yet.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "ops/recurrent.h"
#include "ops/registry.h"

namespace htpipe::ops {
namespace {

enum Operand : std::size_t { kInitialC = 5, kPeephole = 6, kLengths = 7 };

Result<RecurrentForm> form_of(const NodeView& node) {
  HTPIPE_TRY(const RecurrentForm form, recurrent_form(node, 4, kLengths));
  HTPIPE_CHECK_OK(check_operand(node, kInitialC, {form.batch, form.hidden}));
  HTPIPE_CHECK_OK(check_operand(node, kPeephole, {3 * form.hidden}));
  return form;
}

Result<std::vector<TensorType>> infer(const NodeView& node) {
  HTPIPE_TRY(const RecurrentForm form, form_of(node));
  const DType dtype = node.type(0).dtype;
  const TensorType last = {dtype, {form.batch, form.hidden}, std::nullopt};
  return std::vector<TensorType>{{dtype, {form.steps, form.batch, form.hidden}, std::nullopt}, last, last};
}

/// One sequence one step further. `x` and `h` are the shares of the input and of the state in the four gates.
class Cell {
 public:
  Cell(const RecurrentForm& form, const float* peephole, bool input_forget)
      : form_(form), peephole_(peephole), input_forget_(input_forget) {}

  void advance(const float* x, const float* h, float* state, float* cell) const {
    const std::int64_t n = form_.hidden;
    for (std::int64_t j = 0; j < n; ++j) {
      const auto sum = [&](std::int64_t gate, double of_cell) {
        const std::int64_t at = gate * n + j;
        double value = static_cast<double>(x[at]) + static_cast<double>(h[at]);
        if (peephole_ != nullptr && gate < 3) value += static_cast<double>(peephole_[at]) * of_cell;
        return value;
      };
      const auto before = static_cast<double>(cell[j]);
      const double input = form_.sigmoid(sum(0, before));
      const double forget = input_forget_ ? 1 - input : form_.sigmoid(sum(2, before));
      const double next = forget * before + input * form_.tanh(sum(3, 0));
      cell[j] = static_cast<float>(next);
      state[j] = static_cast<float>(form_.sigmoid(sum(1, next)) * std::tanh(next));
    }
  }

 private:
  const RecurrentForm& form_;
  const float* peephole_;
  bool input_forget_;
};

Result<Kernel> float_kernel(const KernelRequest& request) {
  const NodeView& node = request.node;
  HTPIPE_TRY(const RecurrentForm form, form_of(node));
  const RowWeights input_weights(node, 1, 0, form.width());
  const RowWeights recurrent_weights(node, 2, 0, form.width());
  Kernel kernel;
  const std::size_t walk_bytes = RecurrentRun::scratch_bytes(form);
  kernel.scratch_bytes = walk_bytes + static_cast<std::size_t>(form.batch * form.width()) * sizeof(float);
  kernel.run = [=, has_initial_c = node.has(kInitialC), has_peephole = node.has(kPeephole),
                input_forget = node.attributes.flag("input_forget")](const KernelCall& call) {
    RecurrentRun run(form, call, form.gates);
    float* cells = call.out<float>(2);
    const std::int64_t count = form.batch * form.hidden;
    if (has_initial_c) {
      std::copy_n(call.in<float>(kInitialC), count, cells);
    } else {
      std::fill_n(cells, count, 0.0F);
    }
    auto* h = reinterpret_cast<float*>(call.scratch + walk_bytes);
    const Cell cell(form, has_peephole ? call.in<float>(kPeephole) : nullptr, input_forget);
    const RowWeights::Product product(recurrent_weights, call);
    run.walk(input_weights, [&](std::int64_t step, const float* x) {
      product.run(run.state(), h, form.batch);
      for (std::int64_t image = 0; image < form.batch; ++image) {
        if (!run.active(step, image)) continue;
        cell.advance(x + image * form.width(), h + image * form.width(), run.state() + image * form.hidden,
                     cells + image * form.hidden);
      }
    });
  };
  return kernel;
}

}  // namespace

const OpDef& lstm() {
  static const OpDef op = [] {
    OpDef def;
    def.name = "Lstm";
    def.doc = "Long short-term memory, one layer and direction: all states, last state, last cell.";
    def.operands = {{"input"},
                    {"input_weights", Role::kWeight},
                    {"recurrent_weights", Role::kWeight},
                    {"bias", Role::kBias, true},
                    {"initial_h", Role::kData, true},
                    {"initial_c", Role::kData, true},
                    {"peephole", Role::kWeight, true},
                    {"sequence_lens", Role::kData, true}};
    def.attributes = {direction_attribute(),
                      clip_attribute(),
                      {"input_forget", false, false, "the forget gate is 1 minus the input gate"}};
    def.infer = infer;
    def.float_kernel = float_kernel;
    def.macs = [](const NodeView& node, std::span<const TensorType* const> results) {
      return results[0]->count() * 4 * (node.type(1).shape[1] + node.type(2).shape[1]);
    };
    return def;
  }();
  return op;
}

}  // namespace htpipe::ops
