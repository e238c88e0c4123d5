// Attention, RotaryEmbedding and their kin of the standard domain.
#include "import/onnx/onnx_attention.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "import/compose/attention.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kMostPositions = 1 << 24;
constexpr std::int64_t kMostMasked = std::int64_t{1} << 30;

}  // namespace

Result<Value*> split_heads(Builder& builder, Value* value, std::int64_t heads, std::string_view suffix) {
  const Shape shape = value->type.shape;
  if (shape.size() == 4) return value;
  if (shape.size() != 3 || heads < 1 || shape[2] % heads != 0) {
    return fail(Code::kShapeMismatch, fmt::format("{} heads in {}", heads, to_string(shape)));
  }
  HTPIPE_TRY(Value * apart,
             builder.reshape(value, {shape[0], shape[1], heads, shape[2] / heads}, fmt::format("{}_apart", suffix)));
  return builder.transpose(apart, {0, 2, 1, 3}, suffix);
}

Result<Value*> join_heads(Builder& builder, Value* value, std::string_view suffix) {
  const Shape shape = value->type.shape;
  if (shape.size() != 4) return fail(Code::kShapeMismatch, fmt::format("no heads in {}", to_string(shape)));
  HTPIPE_TRY(Value * moved, builder.transpose(value, {0, 2, 1, 3}, "rows"));
  return builder.reshape(moved, {shape[0], shape[2], shape[1] * shape[3]}, suffix);
}

Result<Value*> window_mask(Builder& builder, const Window& window, std::int64_t rows, std::int64_t columns,
                           std::string_view suffix) {
  if (window.left < 0 && window.right < 0) return nullptr;
  if (rows > kMostPositions || columns > kMostPositions || rows * columns > kMostMasked) {
    return fail(Code::kUnsupportedForm, fmt::format("a mask of {} x {}", rows, columns));
  }
  const std::int64_t left = std::min(window.left, kMostPositions);
  const std::int64_t right = std::min(window.right, kMostPositions);
  Tensor mask({DType::kBool, {rows, columns}, std::nullopt});
  const auto data = mask.mutable_data<std::uint8_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t position = row + window.offset;
    for (std::int64_t column = 0; column < columns; ++column) {
      const bool seen = (left < 0 || column >= position - left) && (right < 0 || column <= position + right);
      data[static_cast<std::size_t>(row * columns + column)] = seen ? 1 : 0;
    }
  }
  return builder.constant(suffix, std::move(mask));
}

Result<Value*> additive_mask(Builder& builder, Value* mask, float masked, std::string_view suffix) {
  if (mask->type.dtype != DType::kBool) return mask;
  Value* zero = builder.scalar(fmt::format("{}_zero", suffix), 0.0);
  Value* low = builder.scalar(fmt::format("{}_masked", suffix), static_cast<double>(masked));
  return select(builder, mask, zero, low, suffix);
}

Result<Value*> both_masks(Builder& builder, Value* a, Value* b, std::string_view suffix) {
  if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
  if (a->type.dtype == DType::kBool && b->type.dtype == DType::kBool) return builder.binary("and", a, b, suffix);
  HTPIPE_TRY(Value * left, additive_mask(builder, a, -kInfinity, fmt::format("{}_left", suffix)));
  HTPIPE_TRY(Value * right, additive_mask(builder, b, -kInfinity, fmt::format("{}_right", suffix)));
  HTPIPE_TRY(left, builder.cast(left, DType::kF32, fmt::format("{}_left_wide", suffix)));
  HTPIPE_TRY(right, builder.cast(right, DType::kF32, fmt::format("{}_right_wide", suffix)));
  return builder.binary("add", left, right, suffix);
}

Result<Value*> attend_heads(Builder& builder, const Heads& heads, std::string_view suffix) {
  const DType dtype = heads.query->type.dtype;
  const bool narrow = dtype != DType::kF32;
  compose::Attention attention;
  HTPIPE_TRY(attention.query, builder.cast(heads.query, DType::kF32, "query_wide"));
  HTPIPE_TRY(attention.key, builder.cast(heads.key, DType::kF32, "key_wide"));
  HTPIPE_TRY(attention.value, builder.cast(heads.value, DType::kF32, "value_wide"));
  attention.mask = heads.mask;
  if (heads.mask != nullptr && heads.mask->type.dtype != DType::kBool) {
    HTPIPE_TRY(attention.mask, builder.cast(heads.mask, DType::kF32, "mask_wide"));
  }
  attention.scale = heads.scale;
  attention.softcap = heads.softcap;
  HTPIPE_TRY(Value * result, compose::attend(builder, attention, narrow ? "attention" : suffix));
  return builder.cast(result, dtype, suffix);
}

namespace map {
namespace {

/// The optional fourth output: scores at the stage that `mode` names, or probabilities.
Result<Value*> inner_scores(Call& call, const Heads& heads, std::int64_t mode) {
  const Shape& q = heads.query->type.shape;
  const Shape& k = heads.key->type.shape;
  const DType dtype = heads.query->type.dtype;
  Value* key = heads.key;
  if (q[1] != k[1]) {
    // Every key head once for each query head that shares it.
    if (k[1] < 1 || q[1] % k[1] != 0) return fail(Code::kShapeMismatch, "query heads are no multiple of key heads");
    HTPIPE_TRY(key, call.reshape(key, {k[0], k[1], 1, k[2], k[3]}, "key_shared"));
    HTPIPE_TRY(key, call.expand(key, {k[0], k[1], q[1] / k[1], k[2], k[3]}, "key_repeated"));
    HTPIPE_TRY(key, call.reshape(key, {k[0], q[1], k[2], k[3]}, "key_heads"));
  }
  const double scale = heads.scale.value_or(1.0 / std::sqrt(static_cast<double>(q[3])));
  HTPIPE_TRY(Value * query, call.cast(heads.query, DType::kF32, "qk_query"));
  HTPIPE_TRY(key, call.cast(key, DType::kF32, "qk_key"));
  HTPIPE_TRY(query, call.binary("multiply", query, scale, "qk_scaled"));
  HTPIPE_TRY(Value * scores, mat_mul(call, query, key, false, true, "qk"));
  if (mode >= 1 && heads.softcap != 0.0) {
    HTPIPE_TRY(scores, call.binary("divide", scores, heads.softcap, "qk_small"));
    HTPIPE_TRY(scores, call.neuron("tanh", scores, "qk_bounded"));
    HTPIPE_TRY(scores, call.binary("multiply", scores, heads.softcap, "qk_capped"));
  }
  if (mode < 2) return call.cast(scores, dtype, "qk_output");
  Value* some = nullptr;
  if (heads.mask != nullptr) {
    HTPIPE_TRY(Value * mask, additive_mask(call, heads.mask, -kInfinity, "qk_mask"));
    HTPIPE_TRY(mask, call.cast(mask, DType::kF32, "qk_mask_wide"));
    HTPIPE_TRY(scores, call.binary("add", scores, mask, "qk_masked"));
    HTPIPE_TRY(Value * highest, reduce(call, "ReduceMax", mask, {rank_of(mask) - 1}, true, "qk_highest"));
    HTPIPE_TRY(some, call.binary("greater", highest, -static_cast<double>(kInfinity), "qk_some"));
  }
  if (mode == 2) return call.cast(scores, dtype, "qk_output");
  HTPIPE_TRY(Value * weights, call.add("Softmax", {{"axis", std::int64_t{3}}}, {scores}, "qk_softmax"));
  if (some != nullptr) {
    HTPIPE_TRY(weights, select(call, some, weights, call.scalar("qk_zero", 0.0), "qk_guarded"));
  }
  return call.cast(weights, dtype, "qk_output");
}

/// A mask whose last axis is shorter than the keys hides those behind it.
Result<Value*> grown_mask(Call& call, Value* mask, std::int64_t columns) {
  const Shape& shape = mask->type.shape;
  if (shape.empty() || shape.back() >= columns || shape.back() == 1) return mask;
  IntList pads(2 * shape.size(), 0);
  pads.back() = columns - shape.back();
  const float filler = mask->type.dtype == DType::kBool ? 0.0F : -kInfinity;
  return call.add("Pad", {{"pad_amount", pads}, {"pad_constant_value", filler}}, {mask}, "mask_grown");
}

/// Keys that are no padding, [batch, 1, 1, columns], and the causal or window bounds that count from their number.
Result<Value*> nonpad_mask(Call& call, Value* lengths, const Window& window, std::int64_t rows, std::int64_t columns) {
  const std::int64_t batch = lengths->type.count();
  HTPIPE_TRY(Value * wide, call.cast(lengths, DType::kI64, "lengths"));
  HTPIPE_TRY(wide, call.reshape(wide, {batch, 1, 1, 1}, "lengths_column"));
  Value* places = call.integers("places", {1, 1, 1, columns}, count_up(0, columns));
  HTPIPE_TRY(Value * mask, call.binary("less", places, wide, "no_padding"));
  if (window.left < 0 && window.right < 0) return mask;
  HTPIPE_TRY(Value * own, call.binary("add", wide, call.integers("rows", {1, 1, rows, 1}, count_up(-rows, 0)), "own"));
  if (window.right >= 0) {
    HTPIPE_TRY(Value * last, call.binary("add", own, static_cast<double>(window.right), "last"));
    HTPIPE_TRY(Value * seen, call.binary("less_equal", places, last, "not_after"));
    HTPIPE_TRY(mask, both_masks(call, mask, seen, "mask_after"));
  }
  if (window.left >= 0) {
    HTPIPE_TRY(Value * first, call.binary("subtract", own, static_cast<double>(window.left), "first"));
    HTPIPE_TRY(Value * seen, call.binary("greater_equal", places, first, "not_before"));
    HTPIPE_TRY(mask, both_masks(call, mask, seen, "mask_before"));
  }
  return mask;
}

}  // namespace

Result<Values> attention(Call& call) {
  Heads heads;
  HTPIPE_TRY(heads.query, call.input(0));
  HTPIPE_TRY(heads.key, call.input(1));
  HTPIPE_TRY(heads.value, call.input(2));
  const bool joined = rank_of(heads.query) == 3;
  HTPIPE_TRY(const std::int64_t query_heads, call.integer("q_num_heads", 0));
  HTPIPE_TRY(const std::int64_t key_heads, call.integer("kv_num_heads", 0));
  HTPIPE_TRY(heads.query, split_heads(call, heads.query, query_heads, "query"));
  HTPIPE_TRY(heads.key, split_heads(call, heads.key, key_heads, "key"));
  HTPIPE_TRY(heads.value, split_heads(call, heads.value, key_heads, "value"));
  Window window;
  if (call.has(4) != call.has(5)) return fail(Code::kOnnxInvalid, "only one of past_key and past_value");
  if (call.has(4)) {
    HTPIPE_TRY(Value * past, call.input(4));
    HTPIPE_TRY(Value * past_value, call.input(5));
    if (rank_of(past) != 4) return fail(Code::kShapeMismatch, fmt::format("past_key {}", to_string(past->type.shape)));
    window.offset = past->type.shape[2];
    HTPIPE_TRY(heads.key, concat(call, {past, heads.key}, 2, "present_key"));
    HTPIPE_TRY(heads.value, concat(call, {past_value, heads.value}, 2, "present_value"));
  }
  const std::int64_t rows = heads.query->type.shape[2];
  const std::int64_t columns = heads.key->type.shape[2];
  if (call.has_attribute("scale")) {
    HTPIPE_TRY(const float scale, call.real("scale"));
    heads.scale = static_cast<double>(scale);
  }
  HTPIPE_TRY(const float softcap, call.real("softcap", 0.0F));
  heads.softcap = static_cast<double>(softcap);
  HTPIPE_TRY(const std::int64_t causal, call.integer("is_causal", 0));
  HTPIPE_TRY(window.left, call.integer("left_window_size", -1));
  HTPIPE_TRY(window.right, call.integer("right_window_size", -1));
  if (causal != 0) window.right = 0;
  Value* mask = call.optional_input(3);
  if (mask != nullptr) {
    HTPIPE_TRY(mask, grown_mask(call, mask, columns));
  }
  Value* bounds = nullptr;
  if (call.has(6)) {
    const Window own = call.has(4) ? Window{} : window;
    HTPIPE_TRY(bounds, nonpad_mask(call, call.inputs()[6], own, rows, columns));
  }
  if (!call.has(6) || call.has(4)) {
    HTPIPE_TRY(Value * seen, window_mask(call, window, rows, columns, "window"));
    HTPIPE_TRY(bounds, both_masks(call, bounds, seen, "bounds"));
  }
  HTPIPE_TRY(heads.mask, both_masks(call, mask, bounds, "mask"));
  HTPIPE_TRY(Value * result, attend_heads(call, heads, joined ? "heads" : ""));
  if (joined) {
    HTPIPE_TRY(result, join_heads(call, result));
  }
  Value* scores = nullptr;
  if (call.wants(3)) {
    HTPIPE_TRY(const std::int64_t mode, call.integer("qk_matmul_output_mode", 0));
    HTPIPE_TRY(scores, inner_scores(call, heads, mode));
  }
  return Values{result, heads.key, heads.value, scores};
}

Result<Values> rotary_embedding(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * cosine, call.input(1));
  HTPIPE_TRY(Value * sine, call.input(2));
  HTPIPE_TRY(const std::int64_t interleaved, call.integer("interleaved", 0));
  HTPIPE_TRY(const std::int64_t size, call.integer("rotary_embedding_dim", 0));
  HTPIPE_TRY(const std::int64_t heads, call.integer("num_heads", 0));
  const bool joined = rank_of(input) == 3;
  if (call.has(3)) {
    Value* positions = call.inputs()[3];
    HTPIPE_TRY(cosine, call.add("Gather", {{"axis", std::int64_t{0}}}, {cosine, positions}, "cosine"));
    HTPIPE_TRY(sine, call.add("Gather", {{"axis", std::int64_t{0}}}, {sine, positions}, "sine"));
  }
  HTPIPE_TRY(input, split_heads(call, input, heads, "heads"));
  const Attributes attributes = {{"interleaved", interleaved != 0},
                                 {"rotary_embedding_dim", size == 0 ? input->type.shape.back() : size}};
  HTPIPE_TRY(Value * turned, call.add("RotaryEmbedding", attributes, {input, cosine, sine}, joined ? "turned" : ""));
  return one(joined ? join_heads(call, turned) : Result<Value*>(turned));
}

Result<Values> flex_attention(Call& call) {
  HTPIPE_TRY(Value * query, call.input(0));
  HTPIPE_TRY(Value * key, call.input(1));
  HTPIPE_TRY(Value * value, call.input(2));
  const Shape q = query->type.shape;
  const Shape k = key->type.shape;
  const Shape v = value->type.shape;
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || k[1] < 1 || q[1] % k[1] != 0) {
    return fail(Code::kShapeMismatch, fmt::format("FlexAttention of {} and {}", to_string(q), to_string(k)));
  }
  const DType dtype = query->type.dtype;
  const std::int64_t shared = q[1] / k[1];
  HTPIPE_TRY(
      const float scale,
      call.real("scale", static_cast<float>(1.0 / std::sqrt(static_cast<double>(std::max<std::int64_t>(q[3], 1))))));
  HTPIPE_TRY(const std::int64_t precision, call.integer("softmax_precision", dtype == DType::kF64 ? 11 : 1));
  const auto inner = dtype_of(static_cast<std::int32_t>(precision));
  if (!inner || !is_float(*inner)) return fail(Code::kUnsupportedForm, fmt::format("softmax_precision {}", precision));
  // Query heads that share a key head are rows of one product.
  HTPIPE_TRY(query, call.reshape(query, {q[0], k[1], shared * q[2], q[3]}, "grouped"));
  HTPIPE_TRY(Value * scores, mat_mul(call, query, key, false, true, "scores"));
  HTPIPE_TRY(scores, call.binary("multiply", scores, static_cast<double>(scale), "scaled"));
  HTPIPE_TRY(scores, call.reshape(scores, {q[0], q[1], q[2], k[2]}, "heads"));
  HTPIPE_TRY(scores, call.cast(scores, *inner, "precise"));
  const auto modified = [&](std::string_view graph, Value* values) -> Result<Value*> {
    if (!call.has_attribute(graph)) return values;
    HTPIPE_TRY(const Values results, call.subgraph(graph, {values}, fmt::format("{}/{}", call.name(), graph)));
    if (results.size() != 1 || results[0]->type != values->type) {
      return fail(Code::kOnnxInvalid, fmt::format("{} changes the type of its operand", graph));
    }
    return results[0];
  };
  HTPIPE_TRY(scores, modified("score_mod", scores));
  HTPIPE_TRY(Value * weights, call.add("Softmax", {{"axis", std::int64_t{3}}}, {scores}, "softmax"));
  HTPIPE_TRY(weights, modified("prob_mod", weights));
  HTPIPE_TRY(weights, call.cast(weights, dtype, "weights"));
  HTPIPE_TRY(weights, call.reshape(weights, {q[0], k[1], shared * q[2], k[2]}, "weights_grouped"));
  HTPIPE_TRY(Value * product, mat_mul(call, weights, value, false, false, "product"));
  return one(call.reshape(product, {q[0], q[1], q[2], v[3]}));
}

Result<Values> causal_conv_with_state(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * weight, call.input(1));
  HTPIPE_TRY(const std::string activation, call.text("activation", "none"));
  const Shape shape = input->type.shape;
  const Shape kernel = weight->type.shape;
  if (shape.size() != 3 || kernel.size() != 3 || kernel[0] != shape[1] || kernel[1] != 1 || kernel[2] < 1) {
    return fail(Code::kShapeMismatch, fmt::format("weights {} for {}", to_string(kernel), to_string(shape)));
  }
  const std::int64_t past = kernel[2] - 1;
  Value* before = call.optional_input(3);
  if (before == nullptr) {
    before = call.constant("zeros", filled({input->type.dtype, {shape[0], shape[1], past}, std::nullopt}, 0));
  }
  Value* whole = input;
  if (past > 0) {
    HTPIPE_TRY(whole, concat(call, {before, input}, 2, "with_past"));
  }
  const std::int64_t length = past + shape[2];
  const bool gated = activation == "silu" || activation == "swish";
  if (!gated && activation != "none") return fail(Code::kUnsupportedForm, fmt::format("activation {}", activation));
  // A window along the width of an image of one row.
  HTPIPE_TRY(Value * image, call.reshape(whole, {shape[0], shape[1], 1, length}, "image"));
  HTPIPE_TRY(Value * taps, call.reshape(weight, {kernel[0], 1, 1, kernel[2]}, "taps"));
  HTPIPE_TRY(Value * conv, call.add("DepthWiseConv2d", {}, {image, taps, call.optional_input(2)}, "conv"));
  HTPIPE_TRY(Value * result, call.reshape(conv, shape, gated ? "line" : ""));
  if (gated) {
    HTPIPE_TRY(Value * gate, call.neuron("sigmoid", result, "gate"));
    HTPIPE_TRY(result, call.binary("multiply", result, gate));
  }
  Value* state = nullptr;
  if (call.wants(1)) {
    HTPIPE_TRY(state, slice(call, whole, 2, length - past, length, "state"));
  }
  return Values{result, state};
}

}  // namespace map
}  // namespace htpipe::onnx_import
