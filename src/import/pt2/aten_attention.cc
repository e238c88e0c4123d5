// Attention, and the recurrent layers.
#include "import/compose/attention.h"

#include <fmt/core.h>

#include "import/pt2/mappers.h"

namespace htpipe::pt2 {

One attention(Call& call) {
  compose::Attention attention;
  HTPIPE_TRY(attention.query, call.tensor("query"));
  HTPIPE_TRY(attention.key, call.tensor("key"));
  HTPIPE_TRY(attention.value, call.tensor("value"));
  HTPIPE_TRY(attention.mask,
             call.optional_tensor(call.node().input("attn_bias") != nullptr ? "attn_bias" : "attn_mask"));
  HTPIPE_TRY(const double dropout, call.real("dropout_p", 0.0));
  if (dropout != 0.0) return fail(Code::kUnsupportedForm, "dropout in attention: call model.eval() before the export");
  HTPIPE_TRY(attention.causal, call.flag("is_causal", false));
  if (call.has("scale")) {
    HTPIPE_TRY(attention.scale, call.real("scale"));
  }
  return compose::attend(call.builder(), attention);
}

/// The forms for one kind of machine: the first result is the attention.
Many attention_many(Call& call) {
  HTPIPE_TRY(Value * result, attention(call));
  return Values{result};
}

namespace {

/// Rows of gates, as PyTorch has them, in the order of ONNX.
IntList gate_order(std::string_view kind) {
  if (kind == "lstm") return {0, 3, 1, 2};  // i f g o -> i o f c
  if (kind == "gru") return {1, 0, 2};      // r z n -> z r h
  return {0};
}

/// A weight or bias with its gates in the new order.
One reordered(Call& call, Value* weight, const IntList& order, std::string_view suffix) {
  if (order.size() == 1) return weight;
  const auto gates = static_cast<std::int64_t>(order.size());
  if (weight->type.shape.empty() || weight->type.shape[0] % gates != 0) {
    return fail(Code::kShapeMismatch, "a recurrent weight whose rows are no multiple of its gates");
  }
  const std::int64_t rows = weight->type.shape[0] / gates;
  Values parts;
  for (const std::int64_t gate : order) {
    HTPIPE_TRY(Value * part,
               call.slice(weight, 0, gate * rows, (gate + 1) * rows, fmt::format("{}_gate{}", suffix, gate)));
    parts.push_back(part);
  }
  return call.concat(std::move(parts), 0, suffix);
}

One state_of(Call& call, Value* states, std::int64_t index, std::string_view suffix) {
  HTPIPE_TRY(Value * row, call.slice(states, 0, index, index + 1, fmt::format("{}_row", suffix)));
  return call.reshape(row, {states->type.shape[1], states->type.shape[2]}, suffix);
}

}  // namespace

/// lstm.input, gru.input, rnn_tanh.input, rnn_relu.input: layers and directions one by one.
Many recurrent(Call& call) {
  const std::string_view kind = call.argument();
  const bool lstm = kind == "lstm";
  HTPIPE_TRY(Value * x, call.tensor("input"));
  HTPIPE_TRY(const Values params, call.tensors("params"));
  HTPIPE_TRY(const bool has_biases, call.flag("has_biases", true));
  HTPIPE_TRY(const std::int64_t layers, call.integer("num_layers"));
  HTPIPE_TRY(const bool train, call.flag("train", false));
  HTPIPE_TRY(const double dropout, call.real("dropout", 0.0));
  HTPIPE_TRY(const bool both, call.flag("bidirectional", false));
  HTPIPE_TRY(const bool batch_first, call.flag("batch_first", false));
  if (train && dropout != 0.0)
    return fail(Code::kUnsupportedForm, "dropout in training mode: call model.eval() before the export");
  Values states;
  if (lstm) {
    HTPIPE_TRY(states, call.tensors("hx"));
  } else {
    HTPIPE_TRY(Value * state, call.tensor("hx"));
    states = {state};
  }
  const std::int64_t directions = both ? 2 : 1;
  const std::size_t per_cell = has_biases ? 4 : 2;
  // A projection has one more weight per cell.
  if (x->type.shape.size() != 3 || states.size() != (lstm ? 2U : 1U) ||
      params.size() != per_cell * static_cast<std::size_t>(layers * directions)) {
    return fail(Code::kUnsupportedForm,
                "a recurrent layer of this form (projections and packed sequences are not imported)");
  }
  for (const Value* state : states) {
    if (state->type.shape.size() != 3 || state->type.shape[0] != layers * directions) {
      return fail(Code::kShapeMismatch, "a first state of another shape");
    }
  }
  if (batch_first) {
    HTPIPE_TRY(x, call.transpose(x, {1, 0, 2}, "time_first"));
  }
  const IntList order = gate_order(kind);
  Values last_h;
  Values last_c;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    Values outputs;
    for (std::int64_t direction = 0; direction < directions; ++direction) {
      const std::int64_t cell = layer * directions + direction;
      const std::size_t first = static_cast<std::size_t>(cell) * per_cell;
      const std::string tag = fmt::format("layer{}{}", layer, direction == 1 ? "_reverse" : "");
      HTPIPE_TRY(Value * input_weights, reordered(call, params[first], order, tag + "_w"));
      HTPIPE_TRY(Value * recurrent_weights, reordered(call, params[first + 1], order, tag + "_r"));
      Value* bias = nullptr;
      if (has_biases) {
        HTPIPE_TRY(Value * input_bias, reordered(call, params[first + 2], order, tag + "_bw"));
        HTPIPE_TRY(Value * recurrent_bias, reordered(call, params[first + 3], order, tag + "_br"));
        HTPIPE_TRY(bias, call.concat({input_bias, recurrent_bias}, 0, tag + "_bias"));
      } else {
        const std::int64_t size = 2 * input_weights->type.shape[0];
        HTPIPE_TRY(bias,
                   call.constant(tag + "_bias", {size}, std::vector<float>(static_cast<std::size_t>(size), 0.0F)));
      }
      HTPIPE_TRY(Value * h, state_of(call, states[0], cell, tag + "_h"));
      Values operands = {x, input_weights, recurrent_weights, bias, h};
      if (lstm) {
        HTPIPE_TRY(Value * c, state_of(call, states[1], cell, tag + "_c"));
        operands.push_back(c);
      }
      Attributes attributes{{"direction", std::string(direction == 1 ? "reverse" : "forward")}};
      if (kind == "gru") attributes.set("linear_before_reset", true);
      if (kind == "tanh" || kind == "relu") attributes.set("function", std::string(kind));
      HTPIPE_TRY(const Values results, call.add_many(lstm            ? "Lstm"
                                                     : kind == "gru" ? "Gru"
                                                                     : "Rnn",
                                                     std::move(attributes), std::move(operands), tag));
      outputs.push_back(results[0]);
      const Shape row = {1, results[1]->type.shape[0], results[1]->type.shape[1]};
      HTPIPE_TRY(Value * end, call.reshape(results[1], row, tag + "_hn"));
      last_h.push_back(end);
      if (lstm) {
        HTPIPE_TRY(Value * cell_end, call.reshape(results[2], row, tag + "_cn"));
        last_c.push_back(cell_end);
      }
    }
    HTPIPE_TRY(x, call.concat(std::move(outputs), 2, fmt::format("layer{}_output", layer)));
  }
  if (batch_first) {
    HTPIPE_TRY(x, call.transpose(x, {1, 0, 2}));
  }
  HTPIPE_TRY(Value * h, call.concat(std::move(last_h), 0, "hn"));
  Values results = {x, h};
  if (lstm) {
    HTPIPE_TRY(Value * c, call.concat(std::move(last_c), 0, "cn"));
    results.push_back(c);
  }
  return results;
}

}  // namespace htpipe::pt2
