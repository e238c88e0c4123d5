// LinearAttention: a state of keys times values, one step after the other.
#include <fmt/core.h>

#include <cmath>

#include "import/onnx/onnx_attention.h"
#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

constexpr std::int64_t kMostSteps = 256;  ///< each becomes up to a dozen nodes

/// One value per element of `axis`, which stays with size 1.
Result<Values> steps_of(Call& call, Value* value, std::int64_t axis, std::string_view suffix) {
  const std::int64_t count = value->type.shape[static_cast<std::size_t>(axis)];
  if (count == 1) return Values{value};
  return call.add_all("Split", {{"axis", axis}, {"split_index", count_up(1, count)}}, {value}, suffix);
}

/// [batch, steps, heads * size] as float32 [batch, heads, steps, size].
Result<Value*> heads_of(Call& call, std::size_t input, std::int64_t heads, std::string_view name) {
  HTPIPE_TRY(Value * value, call.input(input));
  if (rank_of(value) != 3) return fail(Code::kShapeMismatch, fmt::format("{} of rank {}", name, rank_of(value)));
  HTPIPE_TRY(value, call.cast(value, DType::kF32, fmt::format("{}_wide", name)));
  return split_heads(call, value, heads, name);
}

struct Step {
  Value* query;
  Value* key;
  Value* value;
  Value* decay;  ///< null for rules without a gate
  Value* beta;   ///< null for rules without a correction
};

/// Brings the state one step further and gives what the query reads from it.
Result<Value*> advance(Call& call, const Step& step, double scale, Value*& state) {
  if (step.decay != nullptr) {
    HTPIPE_TRY(state, call.binary("multiply", state, step.decay, "decayed"));
  }
  Value* update = step.value;
  if (step.beta != nullptr) {
    HTPIPE_TRY(Value * known, mat_mul(call, step.key, state, false, false, "known"));
    HTPIPE_TRY(Value * missing, call.binary("subtract", step.value, known, "missing"));
    HTPIPE_TRY(update, call.binary("multiply", missing, step.beta, "update"));
  }
  HTPIPE_TRY(Value * gained, mat_mul(call, step.key, update, true, false, "gained"));
  HTPIPE_TRY(state, call.binary("add", state, gained, "state"));
  HTPIPE_TRY(Value * read, mat_mul(call, step.query, state, false, false, "read"));
  return call.binary("multiply", read, scale, "scaled");
}

}  // namespace

Result<Values> linear_attention(Call& call) {
  HTPIPE_TRY(const std::int64_t query_heads, call.integer("q_num_heads"));
  HTPIPE_TRY(const std::int64_t heads, call.integer("kv_num_heads"));
  HTPIPE_TRY(const std::string rule, call.text("update_rule", "gated_delta"));
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool corrected = rule == "delta" || rule == "gated_delta";
  if (!gated && !corrected && rule != "linear") return fail(Code::kUnsupportedForm, fmt::format("rule {}", rule));
  if (heads < 1 || query_heads < 1 || query_heads % heads != 0 || gated != call.has(4) || corrected != call.has(5)) {
    return fail(Code::kOnnxInvalid, fmt::format("the inputs of LinearAttention do not fit the rule {}", rule));
  }
  HTPIPE_TRY(const Value* first, call.input(0));
  const DType dtype = first->type.dtype;
  HTPIPE_TRY(Value * query, heads_of(call, 0, query_heads, "query"));
  HTPIPE_TRY(Value * key, heads_of(call, 1, heads, "key"));
  HTPIPE_TRY(Value * value, heads_of(call, 2, heads, "value"));
  const Shape k = key->type.shape;
  const std::int64_t batch = k[0];
  const std::int64_t steps = k[2];
  const std::int64_t size = k[3];
  const std::int64_t value_size = value->type.shape[3];
  const std::int64_t shared = query_heads / heads;
  if (query->type.shape != Shape{batch, query_heads, steps, size} ||
      value->type.shape != Shape{batch, heads, steps, value_size} || steps < 1) {
    return fail(Code::kShapeMismatch, "queries, keys and values do not fit");
  }
  if (steps > kMostSteps) {
    return fail(Code::kUnsupportedForm,
                fmt::format("LinearAttention over {} steps; {} are taken apart", steps, kMostSteps));
  }
  HTPIPE_TRY(query, call.reshape(query, {batch, heads, shared, steps, size}, "query_groups"));
  HTPIPE_TRY(query, call.transpose(query, {0, 1, 3, 2, 4}, "query_steps"));
  HTPIPE_TRY(query, call.reshape(query, {batch, heads, steps * shared, size}, "query_rows"));
  Values queries = {query};
  if (steps > 1) {
    IntList cuts;
    for (std::int64_t i = 1; i < steps; ++i) cuts.push_back(i * shared);
    HTPIPE_TRY(queries,
               call.add_all("Split", {{"axis", std::int64_t{2}}, {"split_index", cuts}}, {query}, "query_step"));
  }
  HTPIPE_TRY(const Values keys, steps_of(call, key, 2, "key_step"));
  HTPIPE_TRY(const Values values, steps_of(call, value, 2, "value_step"));
  Values decays(static_cast<std::size_t>(steps), nullptr);
  Values betas = decays;
  if (gated) {
    HTPIPE_TRY(Value * decay, heads_of(call, 4, heads, "decay"));
    HTPIPE_TRY(decay, call.unary("exp", decay, "kept"));
    // Along the rows of the state.
    HTPIPE_TRY(decay, call.transpose(decay, {0, 1, 3, 2}, "kept_rows"));
    HTPIPE_TRY(decays, steps_of(call, decay, 3, "decay_step"));
  }
  if (corrected) {
    HTPIPE_TRY(Value * beta, call.input(5));
    if (rank_of(beta) != 3) return fail(Code::kShapeMismatch, "beta");
    HTPIPE_TRY(beta, heads_of(call, 5, beta->type.shape[2], "beta"));
    HTPIPE_TRY(betas, steps_of(call, beta, 2, "beta_step"));
  }
  if (decays.size() != keys.size() || betas.size() != keys.size()) {
    return fail(Code::kShapeMismatch, fmt::format("decay or beta does not have {} steps", steps));
  }
  HTPIPE_TRY(const float given_scale, call.real("scale", 0.0F));
  const double scale =
      given_scale != 0.0F ? static_cast<double>(given_scale) : 1.0 / std::sqrt(static_cast<double>(size));
  const Shape state_shape = {batch, heads, size, value_size};
  Value* state = call.optional_input(3);
  const DType state_type = state != nullptr ? state->type.dtype : dtype;
  if (state == nullptr) {
    state = call.constant("initial", filled({DType::kF32, state_shape, std::nullopt}, 0));
  } else if (state->type.shape != state_shape) {
    return fail(Code::kShapeMismatch, fmt::format("past_state {}", to_string(state->type.shape)));
  }
  HTPIPE_TRY(state, call.cast(state, DType::kF32, "initial_wide"));
  std::vector<Value*> results;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const Step step = {queries[i], keys[i], values[i], decays[i], betas[i]};
    HTPIPE_TRY(Value * read, advance(call, step, scale, state));
    HTPIPE_TRY(read, call.reshape(read, {batch, 1, query_heads * value_size}, "row"));
    results.push_back(read);
  }
  HTPIPE_TRY(Value * all, concat(call, results, 1, dtype == DType::kF32 ? "" : "rows"));
  HTPIPE_TRY(all, call.cast(all, dtype));
  HTPIPE_TRY(state, call.cast(state, state_type, "final_state"));
  return Values{all, state};
}

}  // namespace htpipe::onnx_import::map
