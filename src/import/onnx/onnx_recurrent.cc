// LSTM, GRU and RNN: one of our nodes per direction.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// What the three operators have in common.
struct Recurrent {
  Value* input = nullptr;  ///< [steps, batch, input]
  std::int64_t steps = 0;
  std::int64_t batch = 0;
  std::int64_t hidden = 0;
  std::vector<std::string> directions;
  bool batch_first = false;
  float clip = 0.0F;
  Value* lengths = nullptr;  ///< null when all sequences are complete
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

Result<Recurrent> recurrent_of(Call& call, const Value* recurrence, std::int64_t gates) {
  Recurrent form;
  HTPIPE_TRY(form.input, call.input(0));
  HTPIPE_TRY(const std::int64_t layout, call.integer("layout", 0));
  form.batch_first = layout != 0;
  if (rank_of(form.input) != 3 || rank_of(recurrence) != 3) {
    return fail(Code::kShapeMismatch, fmt::format("input {} and recurrence {}", to_string(form.input->type.shape),
                                                  to_string(recurrence->type.shape)));
  }
  if (form.batch_first) {
    HTPIPE_TRY(form.input, call.transpose(form.input, {1, 0, 2}, "time_first"));
  }
  form.steps = form.input->type.shape[0];
  form.batch = form.input->type.shape[1];
  form.hidden = recurrence->type.shape[2];
  HTPIPE_TRY(const std::string direction, call.text("direction", "forward"));
  if (direction == "bidirectional") {
    form.directions = {"forward", "reverse"};
  } else {
    form.directions = {direction};
  }
  const auto count = static_cast<std::int64_t>(form.directions.size());
  if (recurrence->type.shape != Shape{count, gates * form.hidden, form.hidden}) {
    return fail(Code::kShapeMismatch,
                fmt::format("recurrence {} for {}", to_string(recurrence->type.shape), direction));
  }
  HTPIPE_TRY(form.clip, call.real("clip", 0.0F));
  if (call.has(4)) {
    form.lengths = call.inputs()[4];
    if (form.lengths->is_constant()) {
      const std::vector<std::int64_t> lengths = to_integers(form.lengths->constant);
      const bool complete =
          std::all_of(lengths.begin(), lengths.end(), [&](std::int64_t x) { return x == form.steps; });
      if (complete && static_cast<std::int64_t>(lengths.size()) == form.batch) form.lengths = nullptr;
    }
  }
  return form;
}

/// The activations of each direction in lower case; `defaults` when the model names none.
Result<std::vector<std::string>> activations_of(const Call& call, const Recurrent& form,
                                                const std::vector<std::string>& defaults) {
  std::vector<std::string> names;
  if (const auto* given = call.attribute("activations")) {
    for (const std::string& name : given->strings()) names.push_back(lower(name));
  }
  if (names.empty()) {
    for (std::size_t i = 0; i < form.directions.size(); ++i)
      names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() != form.directions.size() * defaults.size()) {
    return fail(Code::kOnnxInvalid, fmt::format("{} activations", names.size()));
  }
  return names;
}

Status require_activations(const Call& call, const Recurrent& form, const std::vector<std::string>& defaults) {
  HTPIPE_TRY(const std::vector<std::string> names, activations_of(call, form, defaults));
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == defaults[i % defaults.size()]) continue;
    return fail(Code::kUnsupportedForm,
                fmt::format("the activation {} instead of {}", names[i], defaults[i % defaults.size()]));
  }
  return {};
}

/// An input [directions, ...] for one direction; null when it is absent.
Result<Value*> of_direction(Call& call, std::size_t input, std::size_t direction, std::string_view name) {
  if (!call.has(input)) return nullptr;
  return part_of(call, call.inputs()[input], static_cast<std::int64_t>(direction), name);
}

/// A state [directions, batch, hidden], or [batch, directions, hidden] when the batch stands first.
Result<Value*> state_of(Call& call, const Recurrent& form, std::size_t input, std::size_t direction,
                        std::string_view name) {
  if (!call.has(input)) return nullptr;
  Value* state = call.inputs()[input];
  if (rank_of(state) != 3) return fail(Code::kShapeMismatch, fmt::format("state {}", to_string(state->type.shape)));
  if (form.batch_first) {
    HTPIPE_TRY(state, call.transpose(state, {1, 0, 2}, fmt::format("{}_directions", name)));
  }
  return part_of(call, state, static_cast<std::int64_t>(direction), name);
}

/// Results of the directions, joined as ONNX has them.
Result<Values> joined(Call& call, const Recurrent& form, const std::vector<Values>& results) {
  const std::int64_t steps = form.steps;
  Values outputs;
  for (std::size_t output = 0; output < results.front().size(); ++output) {
    if (!call.wants(output)) {
      outputs.push_back(nullptr);
      continue;
    }
    const std::string name = output == 0 ? "" : fmt::format("state_{}", output);
    const auto part = [&](std::string_view what) { return fmt::format("{}{}{}", name, output == 0 ? "" : "_", what); };
    const bool last = output != 0;
    const bool moves = form.batch_first;
    const bool single = results.size() == 1;
    std::vector<Value*> parts;
    for (const Values& result : results) {
      const Shape shape = last ? Shape{1, form.batch, form.hidden} : Shape{steps, 1, form.batch, form.hidden};
      HTPIPE_TRY(Value * one_direction,
                 call.reshape(result[output], shape, single && !moves ? name : part("direction")));
      parts.push_back(one_direction);
    }
    HTPIPE_TRY(Value * value, concat(call, parts, last ? 0 : 1, moves ? part("directions") : name));
    if (moves) {
      const IntList perm = last ? IntList{1, 0, 2} : IntList{2, 0, 1, 3};
      HTPIPE_TRY(value, call.transpose(value, perm, name));
    }
    outputs.push_back(value);
  }
  return outputs;
}

std::vector<Value*> trimmed(std::vector<Value*> operands) {
  while (operands.back() == nullptr) operands.pop_back();
  return operands;
}

Result<Values> lstm_of(Call& call, Value* weights, Value* recurrence) {
  HTPIPE_TRY(const Recurrent form, recurrent_of(call, recurrence, 4));
  HTPIPE_CHECK_OK(require_activations(call, form, {"sigmoid", "tanh", "tanh"}));
  HTPIPE_TRY(const std::int64_t input_forget, call.integer("input_forget", 0));
  std::vector<Values> results;
  for (std::size_t i = 0; i < form.directions.size(); ++i) {
    HTPIPE_TRY(Value * input_weights, part_of(call, weights, static_cast<std::int64_t>(i), "weights"));
    HTPIPE_TRY(Value * state_weights, part_of(call, recurrence, static_cast<std::int64_t>(i), "recurrence"));
    HTPIPE_TRY(Value * bias, of_direction(call, 3, i, "bias"));
    HTPIPE_TRY(Value * initial_h, state_of(call, form, 5, i, "initial_h"));
    HTPIPE_TRY(Value * initial_c, state_of(call, form, 6, i, "initial_c"));
    HTPIPE_TRY(Value * peephole, of_direction(call, 7, i, "peephole"));
    const Attributes attributes = {
        {"direction", form.directions[i]}, {"clip", form.clip}, {"input_forget", input_forget != 0}};
    HTPIPE_TRY(const Values values, call.add_all("Lstm", attributes,
                                                 trimmed({form.input, input_weights, state_weights, bias, initial_h,
                                                          initial_c, peephole, form.lengths}),
                                                 form.directions[i]));
    results.push_back(values);
  }
  return joined(call, form, results);
}

/// Weights [directions, k, columns] of 8 bits with a scale and a zero point per direction, or per direction and column,
/// as real numbers in the order of LSTM: [directions, columns, k].
Result<Value*> real_weights(Call& call, std::size_t input, std::size_t scale_input, std::string_view name) {
  HTPIPE_TRY(const Tensor stored, call.constant_input(input));
  HTPIPE_TRY(const std::vector<float> scales, call.floats_input(scale_input));
  HTPIPE_TRY(const IntList zeros, call.integers_input(scale_input + 1));
  const Shape& shape = stored.shape();
  if (shape.size() != 3 || stored.count() == 0 || scales.size() != zeros.size()) {
    return fail(Code::kShapeMismatch, fmt::format("quantised weights {}", to_string(shape)));
  }
  const auto directions = static_cast<std::size_t>(shape[0]);
  const auto columns = static_cast<std::size_t>(shape[2]);
  const bool per_column = scales.size() == directions * columns;
  if (!per_column && scales.size() != directions) return fail(Code::kShapeMismatch, "scales of quantised weights");
  Tensor real({DType::kF32, {shape[0], shape[2], shape[1]}, std::nullopt});
  const auto data = real.mutable_data<float>();
  for (std::int64_t i = 0; i < stored.count(); ++i) {
    const std::int64_t column = i % shape[2];
    const std::int64_t row = i / shape[2] % shape[1];
    const std::int64_t direction = i / shape[2] / shape[1];
    const std::int64_t at = per_column ? direction * shape[2] + column : direction;
    const double value = (stored.real(i) - static_cast<double>(zeros[static_cast<std::size_t>(at)])) *
                         static_cast<double>(scales[static_cast<std::size_t>(at)]);
    data[static_cast<std::size_t>((direction * shape[2] + column) * shape[1] + row)] = static_cast<float>(value);
  }
  return call.constant(fmt::format("{}_real", name), std::move(real));
}

}  // namespace

Result<Values> lstm(Call& call) {
  HTPIPE_TRY(Value * weights, call.input(1));
  HTPIPE_TRY(Value * recurrence, call.input(2));
  return lstm_of(call, weights, recurrence);
}

Result<Values> dynamic_quantize_lstm(Call& call) {
  HTPIPE_TRY(Value * weights, real_weights(call, 1, 8, "weights"));
  HTPIPE_TRY(Value * recurrence, real_weights(call, 2, 10, "recurrence"));
  call.warn(
      "the products of DynamicQuantizeLSTM are computed with real inputs; onnxruntime rounds them to 8 bits first");
  return lstm_of(call, weights, recurrence);
}

Result<Values> gru(Call& call) {
  HTPIPE_TRY(const Value* recurrences, call.input(2));
  HTPIPE_TRY(const Recurrent form, recurrent_of(call, recurrences, 3));
  HTPIPE_CHECK_OK(require_activations(call, form, {"sigmoid", "tanh"}));
  HTPIPE_TRY(const std::int64_t linear, call.integer("linear_before_reset", 0));
  std::vector<Values> results;
  for (std::size_t i = 0; i < form.directions.size(); ++i) {
    HTPIPE_TRY(Value * weights, of_direction(call, 1, i, "weights"));
    HTPIPE_TRY(Value * recurrence, of_direction(call, 2, i, "recurrence"));
    HTPIPE_TRY(Value * bias, of_direction(call, 3, i, "bias"));
    HTPIPE_TRY(Value * initial_h, state_of(call, form, 5, i, "initial_h"));
    const Attributes attributes = {
        {"direction", form.directions[i]}, {"clip", form.clip}, {"linear_before_reset", linear != 0}};
    HTPIPE_TRY(
        const Values values,
        call.add_all("Gru", attributes, trimmed({form.input, weights, recurrence, bias, initial_h, form.lengths}),
                     form.directions[i]));
    results.push_back(values);
  }
  return joined(call, form, results);
}

Result<Values> rnn(Call& call) {
  HTPIPE_TRY(const Value* recurrences, call.input(2));
  HTPIPE_TRY(const Recurrent form, recurrent_of(call, recurrences, 1));
  HTPIPE_TRY(const std::vector<std::string> functions, activations_of(call, form, {"tanh"}));
  std::vector<Values> results;
  for (std::size_t i = 0; i < form.directions.size(); ++i) {
    if (functions[i] != "tanh" && functions[i] != "relu") {
      return fail(Code::kUnsupportedForm, fmt::format("the activation {} instead of tanh or relu", functions[i]));
    }
    HTPIPE_TRY(Value * weights, of_direction(call, 1, i, "weights"));
    HTPIPE_TRY(Value * recurrence, of_direction(call, 2, i, "recurrence"));
    HTPIPE_TRY(Value * bias, of_direction(call, 3, i, "bias"));
    HTPIPE_TRY(Value * initial_h, state_of(call, form, 5, i, "initial_h"));
    const Attributes attributes = {{"direction", form.directions[i]}, {"clip", form.clip}, {"function", functions[i]}};
    HTPIPE_TRY(
        const Values values,
        call.add_all("Rnn", attributes, trimmed({form.input, weights, recurrence, bias, initial_h, form.lengths}),
                     form.directions[i]));
    results.push_back(values);
  }
  return joined(call, form, results);
}

}  // namespace htpipe::onnx_import::map
