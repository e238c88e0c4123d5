// What Lstm, Gru and Rnn share: operands, the walk over time, and the products of inputs and states with weights.
// Form: input [steps, batch, input], weights [gates * hidden, input] and [gates * hidden, hidden], bias of the input
// followed by that of the state [2 * gates * hidden], initial state [batch, hidden], lengths [batch]; one direction.
// Invariant: every product is kernels::gemm_f32 on weights that were packed once, when they are constant.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ir/op.h"
#include "kernels/gemm_f32.h"

namespace htpipe::ops {

/// A recurrent node taken apart. Operands 0 to 4: input, input_weights, recurrent_weights, bias, initial_h.
struct RecurrentForm {
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t input = 0;
  std::int64_t hidden = 0;
  std::int64_t gates = 1;
  bool reverse = false;
  float clip = 0;  ///< bound of what goes into an activation; 0 = none
  bool has_bias = false;
  bool has_initial_h = false;
  std::size_t lengths = 0;  ///< operand with the lengths; 0 = all sequences are complete

  [[nodiscard]] std::int64_t width() const { return gates * hidden; }
  /// Steps whose products with the input are computed together.
  [[nodiscard]] std::int64_t chunk() const;
  [[nodiscard]] double clipped(double x) const;
  [[nodiscard]] double sigmoid(double x) const;
  [[nodiscard]] double tanh(double x) const;
};

/// `lengths` is the operand with the lengths. Errors: shape-mismatch, dtype-mismatch, unsupported-form.
Result<RecurrentForm> recurrent_form(const NodeView& node, std::int64_t gates, std::size_t lengths);
/// That operand `index`, if given, holds real numbers in that shape. Errors: shape-mismatch, dtype-mismatch.
Status check_operand(const NodeView& node, std::size_t index, const Shape& shape);

/// Attributes: direction, clip.
[[nodiscard]] AttributeSpec direction_attribute();
[[nodiscard]] AttributeSpec clip_attribute();

/// Rows [first, first + count) of a weight operand [rows, k], for products with its transpose.
class RowWeights {
 public:
  RowWeights(const NodeView& node, std::size_t operand, std::int64_t first, std::int64_t count);
  /// c[m, count] = a[m, k] · transposed rows. Weights that are no constants are packed for each call of the kernel.
  class Product {
   public:
    Product(const RowWeights& weights, const KernelCall& call);
    void run(const float* a, float* c, std::int64_t m) const { kernels::gemm_f32(a, *packed_, c, m); }

   private:
    std::shared_ptr<const kernels::PackedF32> packed_;
  };

 private:
  [[nodiscard]] std::shared_ptr<const kernels::PackedF32> pack(const float* weights) const;
  std::size_t operand_;
  std::int64_t first_;
  std::int64_t count_;
  std::int64_t k_;
  std::shared_ptr<const kernels::PackedF32> packed_;
};

/// One call of a recurrent kernel: the walk over time. Results 0 and 1 are all states and the last one.
class RecurrentRun {
 public:
  /// `bias_of_state` says for how many of the gates the state's bias is added to the input's at once.
  RecurrentRun(const RecurrentForm& form, const KernelCall& call, std::int64_t bias_of_state);
  [[nodiscard]] static std::size_t scratch_bytes(const RecurrentForm& form);

  /// The state [batch, hidden]; it ends as result 1.
  [[nodiscard]] float* state() const { return state_; }
  /// False behind the end of a sequence.
  [[nodiscard]] bool active(std::int64_t step, std::int64_t image) const;

  /// Calls update(step, x) in order of time; x[batch, gates * hidden] is the input's share with its biases. `update`
  /// brings the state of the active sequences to the next step.
  template <typename Update>
  void walk(const RowWeights& input_weights, Update update) {
    const RowWeights::Product product(input_weights, call_);
    const std::int64_t chunk = form_.chunk();
    for (std::int64_t done = 0; done < form_.steps; done += chunk) {
      const std::int64_t count = form_.steps - done < chunk ? form_.steps - done : chunk;
      const std::int64_t first = form_.reverse ? form_.steps - done - count : done;
      share_of_input(product, first, count);
      for (std::int64_t i = 0; i < count; ++i) {
        const std::int64_t at = form_.reverse ? count - 1 - i : i;
        update(first + at, x_ + at * form_.batch * form_.width());
        keep(first + at);
      }
    }
  }

 private:
  void share_of_input(const RowWeights::Product& product, std::int64_t first, std::int64_t count);
  void keep(std::int64_t step);

  const RecurrentForm& form_;
  const KernelCall& call_;
  float* state_;
  float* x_;
  float* bias_;
};

}  // namespace htpipe::ops
