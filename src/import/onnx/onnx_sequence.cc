// Sequences and optional values. They exist only while a model is imported: what remains are the tensors in them.
#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

/// A constant position in a sequence, counted from the front; `extra` allows one behind the end.
Result<std::int64_t> position_in(Call& call, std::size_t index, const Values& elements, bool extra) {
  HTPIPE_TRY(const double given, number_input(call, index));
  const auto size = static_cast<std::int64_t>(elements.size());
  auto position = static_cast<std::int64_t>(given);
  if (position < 0) position += size;
  if (position < 0 || position > size || (position == size && !extra)) {
    return fail(Code::kOnnxInvalid, fmt::format("position {} of a sequence of {}", given, size));
  }
  return position;
}

}  // namespace

Result<Values> sequence_empty(Call& call) { return Values{call.make_sequence({})}; }

Result<Values> sequence_construct(Call& call) {
  Values elements;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    HTPIPE_TRY(Value * element, call.input(i));
    elements.push_back(element);
  }
  return Values{call.make_sequence(std::move(elements))};
}

Result<Values> sequence_at(Call& call) {
  HTPIPE_TRY(const Values elements, call.sequence_input(0));
  HTPIPE_TRY(const std::int64_t position, position_in(call, 1, elements, false));
  return Values{elements[static_cast<std::size_t>(position)]};
}

Result<Values> sequence_length(Call& call) {
  HTPIPE_TRY(const Values elements, call.sequence_input(0));
  return Values{call.integers("", Shape{}, IntList{static_cast<std::int64_t>(elements.size())})};
}

Result<Values> sequence_insert(Call& call) {
  HTPIPE_TRY(Values elements, call.sequence_input(0));
  HTPIPE_TRY(Value * element, call.input(1));
  auto position = static_cast<std::int64_t>(elements.size());
  if (call.has(2)) {
    HTPIPE_TRY(position, position_in(call, 2, elements, true));
  }
  elements.insert(elements.begin() + position, element);
  return Values{call.make_sequence(std::move(elements))};
}

Result<Values> sequence_erase(Call& call) {
  HTPIPE_TRY(Values elements, call.sequence_input(0));
  if (elements.empty()) return fail(Code::kOnnxInvalid, "nothing to erase from an empty sequence");
  auto position = static_cast<std::int64_t>(elements.size()) - 1;
  if (call.has(1)) {
    HTPIPE_TRY(position, position_in(call, 1, elements, false));
  }
  elements.erase(elements.begin() + position);
  return Values{call.make_sequence(std::move(elements))};
}

Result<Values> concat_from_sequence(Call& call) {
  HTPIPE_TRY(Values elements, call.sequence_input(0));
  HTPIPE_TRY(const std::int64_t new_axis, call.integer("new_axis", 0));
  if (elements.empty()) return fail(Code::kUnsupportedForm, "an empty sequence is joined");
  const std::size_t rank = elements.front()->type.shape.size();
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", std::nullopt, rank + (new_axis != 0 ? 1 : 0)));
  if (new_axis != 0) {
    for (std::size_t i = 0; i < elements.size(); ++i) {
      Shape shape = elements[i]->type.shape;
      if (shape.size() != rank) return fail(Code::kShapeMismatch, "elements of a sequence differ in rank");
      shape.insert(shape.begin() + axis, 1);
      HTPIPE_TRY(elements[i], call.reshape(elements[i], shape, fmt::format("part_{}", i)));
    }
  }
  return one(onnx_import::concat(call, elements, axis));
}

Result<Values> split_to_sequence(Call& call) {
  HTPIPE_TRY(Value * input, call.input(0));
  HTPIPE_TRY(const std::int64_t axis, call.axis("axis", 0, input->type.shape.size()));
  HTPIPE_TRY(const std::int64_t keep, call.integer("keepdims", 1));
  const std::int64_t size = input->type.shape[static_cast<std::size_t>(axis)];
  IntList parts(static_cast<std::size_t>(size), 1);
  if (call.has(1)) {
    HTPIPE_TRY(const Tensor given, call.constant_input(1));
    parts = to_integers(given);
    if (given.shape().empty()) {
      const std::int64_t part = parts.front();
      if (part < 1) return fail(Code::kOnnxInvalid, fmt::format("parts of {} elements", part));
      parts.assign(static_cast<std::size_t>(size / part), part);
      if (size % part != 0) parts.push_back(size % part);
    }
  }
  Values elements;
  std::int64_t begin = 0;
  for (const std::int64_t part : parts) {
    if (part < 0 || part > size - begin) return fail(Code::kShapeMismatch, "the parts are larger than the whole");
    const std::string name = fmt::format("part_{}", elements.size());
    HTPIPE_TRY(Value * element, onnx_import::slice(call, input, axis, begin, begin + part, name));
    if (!call.has(1) && keep == 0) {
      Shape shape = element->type.shape;
      shape.erase(shape.begin() + axis);
      HTPIPE_TRY(element, call.reshape(element, shape, name + "_flat"));
    }
    elements.push_back(element);
    begin += part;
  }
  if (begin != size) return fail(Code::kShapeMismatch, "the parts are smaller than the whole");
  return Values{call.make_sequence(std::move(elements))};
}

Result<Values> sequence_map(Call& call) {
  HTPIPE_TRY(const Values first, call.sequence_input(0));
  std::vector<Values> results(call.output_count());
  for (std::size_t at = 0; at < first.size(); ++at) {
    Values operands = {first[at]};
    for (std::size_t i = 1; i < call.input_count(); ++i) {
      HTPIPE_TRY(Value * operand, call.input(i));
      if (call.is_sequence(operand)) {
        HTPIPE_TRY(const Values others, call.sequence_input(i));
        if (others.size() != first.size()) return fail(Code::kShapeMismatch, "sequences differ in length");
        operand = others[at];
      }
      operands.push_back(operand);
    }
    HTPIPE_TRY(const Values parts, call.subgraph("body", operands, fmt::format("{}/{}", call.name(), at)));
    for (std::size_t i = 0; i < results.size() && i < parts.size(); ++i) results[i].push_back(parts[i]);
  }
  Values sequences;
  for (Values& elements : results) sequences.push_back(call.make_sequence(std::move(elements)));
  return sequences;
}

Result<Values> optional(Call& call) {
  HTPIPE_TRY(Value * value, call.input(0));
  return Values{value};
}

Result<Values> optional_get_element(Call& call) { return optional(call); }

Result<Values> optional_has_element(Call& call) { return Values{call.scalar("", call.has(0) ? 1 : 0, DType::kBool)}; }

}  // namespace htpipe::onnx_import::map
