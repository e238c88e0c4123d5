// Losses of classifiers, and the log-probabilities they use.
#include <fmt/core.h>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// -log_probabilities[n, target, ...] * weight[target], reduced. `scores` [n, c, d...], `target` [n, d...].
Result<Value*> likelihood_loss(Call& call, Value* scores, Value* target, Value* weight) {
  HTPIPE_TRY(const std::string reduction, call.text("reduction", "mean"));
  const Shape& shape = scores->type.shape;
  Shape expected = shape;
  if (shape.size() < 2) return fail(Code::kShapeMismatch, fmt::format("scores {}", to_string(shape)));
  expected.erase(expected.begin() + 1);
  if (target->type.shape != expected) {
    return fail(Code::kShapeMismatch,
                fmt::format("targets {} for scores {}", to_string(target->type.shape), to_string(shape)));
  }
  HTPIPE_TRY(Value * index, call.cast(target, DType::kI64, "index"));
  Value* kept = nullptr;
  if (call.has_attribute("ignore_index")) {
    HTPIPE_TRY(const std::int64_t ignored, call.integer("ignore_index"));
    HTPIPE_TRY(kept, call.binary("not_equal", index, static_cast<double>(ignored), "kept"));
    // What is ignored may be no class at all.
    HTPIPE_TRY(index, select(call, kept, index, call.integers("first", {}, {0}), "class"));
  }
  Shape one_class = shape;
  one_class[1] = 1;
  HTPIPE_TRY(Value * places, call.reshape(index, one_class, "places"));
  HTPIPE_TRY(Value * picked, call.add("GatherElements", {{"axis", std::int64_t{1}}}, {scores, places}, "picked"));
  HTPIPE_TRY(picked, call.reshape(picked, expected, "likelihood"));
  HTPIPE_TRY(Value * loss, call.unary("neg", picked, "negative"));
  Value* factor = nullptr;
  if (weight != nullptr) {
    HTPIPE_TRY(factor, call.add("Gather", {{"axis", std::int64_t{0}}}, {weight, index}, "factor"));
  }
  if (kept != nullptr) {
    Value* zero = call.scalar("zero", 0.0, scores->type.dtype);
    Value* full = factor != nullptr ? factor : call.scalar("one", 1.0, scores->type.dtype);
    HTPIPE_TRY(factor, select(call, kept, full, zero, "kept_factor"));
    HTPIPE_TRY(loss, select(call, kept, loss, zero, "kept_loss"));
  }
  const bool reduces = reduction != "none";
  if (factor != nullptr) {
    HTPIPE_TRY(loss, call.binary("multiply", loss, factor, reduces ? "weighted" : ""));
  }
  if (!reduces) return loss;
  const IntList axes = count_up(0, static_cast<std::int64_t>(expected.size()));
  if (reduction == "sum") return reduce(call, "ReduceSum", loss, axes, false);
  if (reduction != "mean") return fail(Code::kOnnxInvalid, fmt::format("reduction {}", reduction));
  if (factor == nullptr) return reduce(call, "ReduceMean", loss, axes, false);
  HTPIPE_TRY(Value * sum, reduce(call, "ReduceSum", loss, axes, false, "sum"));
  HTPIPE_TRY(Value * factors, reduce(call, "ReduceSum", factor, axes, false, "factors"));
  return call.binary("divide", sum, factors);
}

}  // namespace

Result<Values> negative_log_likelihood_loss(Call& call) {
  HTPIPE_TRY(Value * scores, call.input(0));
  HTPIPE_TRY(Value * target, call.input(1));
  return one(likelihood_loss(call, scores, target, call.optional_input(2)));
}

Result<Values> softmax_cross_entropy_loss(Call& call) {
  HTPIPE_TRY(Value * scores, call.input(0));
  HTPIPE_TRY(Value * target, call.input(1));
  HTPIPE_TRY(Value * logs, call.add("LogSoftmax", {{"axis", std::int64_t{1}}}, {scores}, "log_softmax"));
  HTPIPE_TRY(Value * loss, likelihood_loss(call, logs, target, call.optional_input(2)));
  return Values{loss, logs};
}

}  // namespace htpipe::onnx_import::map
