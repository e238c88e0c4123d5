// Attention, MultiHeadAttention, GroupQueryAttention and RotaryEmbedding of com.microsoft.
// Source: docs/ContribOperators.md of onnxruntime, and its results.
#include <fmt/core.h>

#include "import/onnx/onnx_attention.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// Key padding: [batch, keys] with 0 for padding, [batch, rows, keys], or [batch] lengths. As what is added to scores.
Result<Value*> padding_mask(Call& call, Value* mask, std::int64_t batch, std::int64_t columns) {
  HTPIPE_TRY(const float filter, call.real("mask_filter_value", -10000.0F));
  const Shape shape = mask->type.shape;
  Value* kept = nullptr;
  HTPIPE_TRY(Value * wide, call.cast(mask, DType::kI64, "padding"));
  if (shape == Shape{batch}) {
    HTPIPE_TRY(wide, call.reshape(wide, {batch, 1, 1, 1}, "lengths"));
    HTPIPE_TRY(kept,
               call.binary("less", call.integers("places", {1, 1, 1, columns}, count_up(0, columns)), wide, "kept"));
  } else if (shape == Shape{batch, columns}) {
    HTPIPE_TRY(wide, call.reshape(wide, {batch, 1, 1, columns}, "padding_row"));
    HTPIPE_TRY(kept, call.binary("greater", wide, 0.0, "kept"));
  } else if (shape.size() == 3 && shape[0] == batch && shape[2] == columns) {
    HTPIPE_TRY(wide, call.reshape(wide, {batch, 1, shape[1], columns}, "padding_rows"));
    HTPIPE_TRY(kept, call.binary("greater", wide, 0.0, "kept"));
  } else {
    return fail(Code::kUnsupportedForm, fmt::format("a padding mask {}", to_string(shape)));
  }
  return additive_mask(call, kept, filter, "padding_mask");
}

/// Elements of a bias [q + k + v] for one of the three.
Result<Value*> with_bias(Call& call, Value* value, Value* bias, std::int64_t begin, std::string_view name) {
  if (bias == nullptr) return value;
  if (rank_of(value) != 3) return fail(Code::kShapeMismatch, to_string(value->type.shape));
  const std::int64_t size = value->type.shape.back();
  if (rank_of(bias) != 1 || begin + size > bias->type.shape[0]) {
    return fail(Code::kShapeMismatch, fmt::format("bias {}", to_string(bias->type.shape)));
  }
  HTPIPE_TRY(Value * own, slice(call, bias, 0, begin, begin + size, fmt::format("{}_bias", name)));
  return call.binary("add", value, own, fmt::format("{}_biased", name));
}

Status read_scale(const Call& call, Heads& heads) {
  HTPIPE_TRY(const float scale, call.real("scale", 0.0F));
  if (scale != 0.0F) heads.scale = static_cast<double>(scale);
  return {};
}

/// Part `index` along `axis` of a packed operand, without that axis, with the heads in front of the rows.
Result<Value*> unpacked(Call& call, Value* packed, std::int64_t index, std::string_view name) {
  const Shape shape = packed->type.shape;  // [batch, rows, heads, parts, size]
  HTPIPE_TRY(Value * part, slice(call, packed, 3, index, index + 1, fmt::format("{}_part", name)));
  HTPIPE_TRY(part, call.reshape(part, {shape[0], shape[1], shape[2], shape[4]}, fmt::format("{}_rows", name)));
  return call.transpose(part, {0, 2, 1, 3}, name);
}

}  // namespace

Result<Values> microsoft_attention(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * weight, call.input(1));
  Value* bias = call.optional_input(2);
  HTPIPE_TRY(const std::int64_t count, call.integer("num_heads"));
  HTPIPE_TRY(const std::int64_t rotary, call.integer("do_rotary", 0));
  HTPIPE_TRY(const std::int64_t shared, call.integer("past_present_share_buffer", 0));
  HTPIPE_TRY(const std::int64_t causal, call.integer("unidirectional", 0));
  if (rotary != 0 || shared != 0) return fail(Code::kUnsupportedForm, "Attention with rotation or a shared buffer");
  if (rank_of(input) != 3 || rank_of(weight) != 2) return fail(Code::kShapeMismatch, "Attention");
  const std::int64_t columns = weight->type.shape[1];
  HTPIPE_TRY(IntList sizes, call.ints("qkv_hidden_sizes"));
  if (sizes.empty()) sizes.assign(3, columns / 3);
  if (sizes.size() != 3 || sizes[0] < 1 || sizes[1] < 1 || sizes[2] < 1 || sizes[0] + sizes[1] + sizes[2] != columns) {
    return fail(Code::kShapeMismatch, fmt::format("weights {}", to_string(weight->type.shape)));
  }
  HTPIPE_TRY(Value * turned, call.transpose(weight, {1, 0}, "weight"));
  HTPIPE_TRY(Value * all, linear(call, input, turned, bias, "qkv"));
  Heads heads;
  const IntList begins = {0, sizes[0], sizes[0] + sizes[1]};
  Value** const targets[] = {&heads.query, &heads.key, &heads.value};
  const char* const names[] = {"query", "key", "value"};
  for (std::size_t i = 0; i < 3; ++i) {
    HTPIPE_TRY(Value * own, slice(call, all, 2, begins[i], begins[i] + sizes[i], fmt::format("{}_joined", names[i])));
    HTPIPE_TRY(*targets[i], split_heads(call, own, count, names[i]));
  }
  Window window;
  if (Value* past = call.optional_input(4)) {
    HTPIPE_TRY(Value * past_key, part_of(call, past, 0, "past_key"));
    HTPIPE_TRY(Value * past_value, part_of(call, past, 1, "past_value"));
    if (rank_of(past_key) != 4) return fail(Code::kShapeMismatch, "past");
    window.offset = past_key->type.shape[2];
    HTPIPE_TRY(heads.key, concat(call, {past_key, heads.key}, 2, "all_keys"));
    HTPIPE_TRY(heads.value, concat(call, {past_value, heads.value}, 2, "all_values"));
  }
  const std::int64_t batch = input->type.shape[0];
  const std::int64_t keys = heads.key->type.shape[2];
  if (causal != 0) window.right = 0;
  HTPIPE_TRY(heads.mask, window_mask(call, window, input->type.shape[1], keys, "causal"));
  if (call.has(3)) {
    HTPIPE_TRY(Value * padding, padding_mask(call, call.inputs()[3], batch, keys));
    HTPIPE_TRY(heads.mask, both_masks(call, heads.mask, padding, "mask"));
  }
  HTPIPE_TRY(heads.mask, both_masks(call, heads.mask, call.optional_input(5), "biased_mask"));
  HTPIPE_CHECK_OK(read_scale(call, heads));
  HTPIPE_TRY(Value * result, attend_heads(call, heads, "heads"));
  HTPIPE_TRY(result, join_heads(call, result));
  Value* present = nullptr;
  if (call.wants(1)) {
    const auto raised = [&](Value* value, std::string_view name) {
      Shape shape = value->type.shape;
      shape.insert(shape.begin(), 1);
      return call.reshape(value, shape, name);
    };
    HTPIPE_TRY(Value * key, raised(heads.key, "present_key"));
    HTPIPE_TRY(Value * value, raised(heads.value, "present_value"));
    HTPIPE_TRY(present, concat(call, {key, value}, 0, "present"));
  }
  return Values{result, present};
}

Result<Values> multi_head_attention(Call& call) {
  HTPIPE_TRY(Value * query, call.input(0));
  HTPIPE_TRY(const std::int64_t count, call.integer("num_heads"));
  HTPIPE_TRY(const std::int64_t causal, call.integer("unidirectional", 0));
  Value* key = call.optional_input(1);
  Value* value = call.optional_input(2);
  Value* bias = call.optional_input(3);
  if (call.wants(3)) return fail(Code::kUnsupportedForm, "the scores as an output");
  Heads heads;
  if (key == nullptr) {
    if (rank_of(query) != 5 || query->type.shape[3] != 3 || bias != nullptr) {
      return fail(Code::kUnsupportedForm, fmt::format("MultiHeadAttention of {} alone", to_string(query->type.shape)));
    }
    HTPIPE_TRY(heads.query, unpacked(call, query, 0, "query"));
    HTPIPE_TRY(heads.key, unpacked(call, query, 1, "key"));
    HTPIPE_TRY(heads.value, unpacked(call, query, 2, "value"));
  } else {
    const bool has_heads = rank_of(key) != 3;
    if (rank_of(query) != 3 || (has_heads && bias != nullptr)) {
      return fail(Code::kUnsupportedForm, fmt::format("MultiHeadAttention of {} and {}", to_string(query->type.shape),
                                                      to_string(key->type.shape)));
    }
    HTPIPE_TRY(query, with_bias(call, query, bias, 0, "query"));
    HTPIPE_TRY(heads.query, split_heads(call, query, count, "query"));
    if (value == nullptr) {
      if (rank_of(key) != 5 || key->type.shape[3] != 2) {
        return fail(Code::kUnsupportedForm, fmt::format("keys {} without values", to_string(key->type.shape)));
      }
      HTPIPE_TRY(heads.key, unpacked(call, key, 0, "key"));
      HTPIPE_TRY(heads.value, unpacked(call, key, 1, "value"));
    } else {
      const std::int64_t size = query->type.shape[2];
      HTPIPE_TRY(key, with_bias(call, key, bias, size, "key"));
      HTPIPE_TRY(value, with_bias(call, value, bias, 2 * size, "value"));
      HTPIPE_TRY(heads.key, split_heads(call, key, count, "key"));
      HTPIPE_TRY(heads.value, split_heads(call, value, count, "value"));
    }
  }
  Window window;
  if (call.has(6) != call.has(7)) return fail(Code::kOnnxInvalid, "only one of past_key and past_value");
  if (Value* past = call.optional_input(6)) {
    if (rank_of(past) != 4) return fail(Code::kShapeMismatch, fmt::format("past_key {}", to_string(past->type.shape)));
    window.offset = past->type.shape[2];
    HTPIPE_TRY(heads.key, concat(call, {past, heads.key}, 2, "present_key"));
    HTPIPE_TRY(heads.value, concat(call, {call.inputs()[7], heads.value}, 2, "present_value"));
  }
  const Shape rows = heads.query->type.shape;
  const std::int64_t keys = heads.key->type.shape[2];
  if (causal != 0) window.right = 0;
  HTPIPE_TRY(heads.mask, window_mask(call, window, rows[2], keys, "causal"));
  if (call.has(4)) {
    HTPIPE_TRY(Value * padding, padding_mask(call, call.inputs()[4], rows[0], keys));
    HTPIPE_TRY(heads.mask, both_masks(call, heads.mask, padding, "mask"));
  }
  HTPIPE_TRY(heads.mask, both_masks(call, heads.mask, call.optional_input(5), "biased_mask"));
  HTPIPE_CHECK_OK(read_scale(call, heads));
  HTPIPE_TRY(Value * result, attend_heads(call, heads, "heads"));
  HTPIPE_TRY(result, join_heads(call, result));
  return Values{result, heads.key, heads.value};
}

Result<Values> group_query_attention(Call& call) {
  HTPIPE_TRY(Value * query, call.input(0));
  Value* key = call.optional_input(1);
  Value* value = call.optional_input(2);
  HTPIPE_TRY(const std::int64_t count, call.integer("num_heads"));
  HTPIPE_TRY(const std::int64_t shared, call.integer("kv_num_heads"));
  HTPIPE_TRY(const std::int64_t rotary, call.integer("do_rotary", 0));
  HTPIPE_TRY(const std::int64_t interleaved, call.integer("rotary_interleaved", 0));
  HTPIPE_TRY(const std::int64_t smooth, call.integer("smooth_softmax", 0));
  HTPIPE_TRY(const std::int64_t local, call.integer("local_window_size", -1));
  HTPIPE_TRY(const float softcap, call.real("softcap", 0.0F));
  if (smooth > 0 || call.has(11)) return fail(Code::kUnsupportedForm, "a softmax with a sink");
  if (rank_of(query) != 3 || count < 1 || shared < 1) {
    return fail(Code::kShapeMismatch, fmt::format("queries {}", to_string(query->type.shape)));
  }
  if (key == nullptr) {
    const std::int64_t size = query->type.shape[2] / (count + 2 * shared);
    Value* packed = query;
    HTPIPE_TRY(query, slice(call, packed, 2, 0, count * size, "query_joined"));
    HTPIPE_TRY(key, slice(call, packed, 2, count * size, (count + shared) * size, "key_joined"));
    HTPIPE_TRY(value, slice(call, packed, 2, (count + shared) * size, (count + 2 * shared) * size, "value_joined"));
  }
  if (value == nullptr) return fail(Code::kOnnxInvalid, "keys without values");
  Heads heads;
  HTPIPE_TRY(heads.query, split_heads(call, query, count, "query"));
  HTPIPE_TRY(heads.key, split_heads(call, key, shared, "key"));
  HTPIPE_TRY(heads.value, split_heads(call, value, shared, "value"));
  const std::int64_t rows = heads.query->type.shape[2];
  Window window;
  Value* past = call.optional_input(3);
  if (past != nullptr) {
    if (rank_of(past) != 4) return fail(Code::kShapeMismatch, fmt::format("past_key {}", to_string(past->type.shape)));
    window.offset = past->type.shape[2];
  }
  // Sequences must be complete: the number of keys that count must be the number of keys that are there.
  HTPIPE_TRY(const IntList lengths, call.integers_input(5));
  for (const std::int64_t length : lengths) {
    if (length + 1 != window.offset + rows) {
      return fail(Code::kUnsupportedForm, fmt::format("{} keys of which {} count", window.offset + rows, length + 1));
    }
  }
  if (rotary != 0) {
    HTPIPE_TRY(Value * cosine, call.input(7));
    HTPIPE_TRY(Value * sine, call.input(8));
    if (call.has(9)) {
      HTPIPE_TRY(cosine, call.add("Gather", {{"axis", std::int64_t{0}}}, {cosine, call.inputs()[9]}, "cosine"));
      HTPIPE_TRY(sine, call.add("Gather", {{"axis", std::int64_t{0}}}, {sine, call.inputs()[9]}, "sine"));
    } else {
      HTPIPE_TRY(cosine, slice(call, cosine, 0, window.offset, window.offset + rows, "cosine"));
      HTPIPE_TRY(sine, slice(call, sine, 0, window.offset, window.offset + rows, "sine"));
    }
    const Attributes turn = {{"interleaved", interleaved != 0},
                             {"rotary_embedding_dim", 2 * cosine->type.shape.back()}};
    HTPIPE_TRY(heads.query, call.add("RotaryEmbedding", turn, {heads.query, cosine, sine}, "query_turned"));
    HTPIPE_TRY(heads.key, call.add("RotaryEmbedding", turn, {heads.key, cosine, sine}, "key_turned"));
  }
  if (past != nullptr && window.offset > 0) {
    HTPIPE_TRY(Value * past_value, call.input(4));
    HTPIPE_TRY(heads.key, concat(call, {past, heads.key}, 2, "present_key"));
    HTPIPE_TRY(heads.value, concat(call, {past_value, heads.value}, 2, "present_value"));
  }
  window.right = 0;
  if (local > 0) window.left = local - 1;
  HTPIPE_TRY(heads.mask, window_mask(call, window, rows, heads.key->type.shape[2], "causal"));
  HTPIPE_TRY(heads.mask, both_masks(call, heads.mask, call.optional_input(10), "mask"));
  heads.softcap = static_cast<double>(softcap);
  HTPIPE_CHECK_OK(read_scale(call, heads));
  HTPIPE_TRY(Value * result, attend_heads(call, heads, "heads"));
  HTPIPE_TRY(result, join_heads(call, result));
  return Values{result, heads.key, heads.value};
}

Result<Values> microsoft_rotary_embedding(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(Value * positions, call.input(1));
  HTPIPE_TRY(Value * cosine, call.input(2));
  HTPIPE_TRY(Value * sine, call.input(3));
  HTPIPE_TRY(const std::int64_t interleaved, call.integer("interleaved", 0));
  HTPIPE_TRY(const std::int64_t size, call.integer("rotary_embedding_dim", 0));
  HTPIPE_TRY(std::int64_t heads, call.integer("num_heads", 0));
  HTPIPE_TRY(const std::int64_t packed, call.integer("is_packed_batching", 0));
  const bool joined = rank_of(input) == 3;
  if (packed != 0 || rank_of(cosine) != 2 || cosine->type.shape[1] < 1) {
    return fail(Code::kUnsupportedForm, "RotaryEmbedding with packed batches or other tables");
  }
  if (joined && heads == 0) heads = input->type.shape[2] / (2 * cosine->type.shape[1]);
  if (!joined && rank_of(input) != 4) return fail(Code::kShapeMismatch, to_string(input->type.shape));
  const std::int64_t rows = input->type.shape[joined ? 1 : 2];
  if (positions->type.count() == 1 && rows != 1) {
    // One number: where the sequence begins.
    HTPIPE_TRY(Value * first, call.cast(positions, DType::kI64, "first"));
    HTPIPE_TRY(first, call.reshape(first, {1}, "first_row"));
    HTPIPE_TRY(positions, call.binary("add", call.integers("rows", {rows}, count_up(0, rows)), first, "positions"));
  }
  if (positions->type.count() == 1) {
    HTPIPE_TRY(positions, call.reshape(positions, {1}, "position"));
  }
  HTPIPE_TRY(cosine, call.add("Gather", {{"axis", std::int64_t{0}}}, {cosine, positions}, "cosine"));
  HTPIPE_TRY(sine, call.add("Gather", {{"axis", std::int64_t{0}}}, {sine, positions}, "sine"));
  HTPIPE_TRY(input, split_heads(call, input, heads, "heads"));
  const Attributes attributes = {{"interleaved", interleaved != 0},
                                 {"rotary_embedding_dim", size == 0 ? input->type.shape.back() : size}};
  HTPIPE_TRY(Value * turned, call.add("RotaryEmbedding", attributes, {input, cosine, sine}, joined ? "turned" : ""));
  return one(joined ? join_heads(call, turned) : Result<Value*>(turned));
}

}  // namespace htpipe::onnx_import::map
