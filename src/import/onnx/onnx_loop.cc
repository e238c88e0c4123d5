// Loops whose number of rounds is known: the body is imported once for each.
#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <string>

#include "import/onnx/onnx_helpers.h"
#include "import/onnx/onnx_map.h"

namespace htpipe::onnx_import::map {
namespace {

constexpr std::int64_t kMaxRounds = 2048;
constexpr std::size_t kMaxNodes = 200'000;  ///< of the graph, after which unrolling stops

Result<const onnx::GraphProto*> body_of(Call& call) {
  const auto* body = call.attribute("body");
  if (body == nullptr || !body->has_g()) return fail(Code::kOnnxInvalid, "the attribute body is no graph");
  return &body->g();
}

Status check_round(Call& call, std::int64_t round) {
  if (round < kMaxRounds && call.graph().nodes().size() < kMaxNodes) return {};
  return fail(Code::kUnsupportedForm, fmt::format("a loop that is still running after {} rounds", round));
}

/// One value along a new axis for each round.
Result<Value*> stacked(Call& call, const Values& parts, std::int64_t axis, std::string_view suffix) {
  if (parts.empty()) {
    return fail(Code::kUnsupportedForm, "the collected results of a loop without rounds have no known shape");
  }
  HTPIPE_TRY(const std::int64_t at, normal_axis(axis, parts.front()->type.shape.size() + 1));
  Values rows;
  for (Value* part : parts) {
    Shape shape = part->type.shape;
    if (shape.size() < static_cast<std::size_t>(at)) {
      return fail(Code::kShapeMismatch, "the rounds of a loop give results of different ranks");
    }
    shape.insert(shape.begin() + at, 1);
    HTPIPE_TRY(Value * row, call.reshape(part, shape, fmt::format("{}_row_{}", suffix, rows.size())));
    rows.push_back(row);
  }
  return onnx_import::concat(call, rows, at, suffix);
}

/// A Scan over axis positions of some operands, with values that go from round to round.
struct Scan {
  Values states;
  Values inputs;
  IntList input_axes;
  IntList input_directions;  ///< 0 forward, 1 backward
  IntList output_axes;
  IntList output_directions;
};

Result<Values> run_scan(Call& call, const Scan& scan, const std::string& name) {
  HTPIPE_TRY(const onnx::GraphProto* body, body_of(call));
  const std::size_t states = scan.states.size();
  const auto outputs = static_cast<std::size_t>(body->output_size());
  if (outputs < states || scan.inputs.empty()) return fail(Code::kOnnxInvalid, "a Scan with too few results or inputs");
  std::int64_t rounds = -1;
  for (std::size_t i = 0; i < scan.inputs.size(); ++i) {
    const std::int64_t size = scan.inputs[i]->type.shape[static_cast<std::size_t>(scan.input_axes[i])];
    if (rounds >= 0 && size != rounds) return fail(Code::kShapeMismatch, "scanned inputs differ in length");
    rounds = size;
  }
  Values carried = scan.states;
  std::vector<Values> collected(outputs - states);
  for (std::int64_t round = 0; round < rounds; ++round) {
    HTPIPE_CHECK_OK(check_round(call, round));
    Values operands = carried;
    for (std::size_t i = 0; i < scan.inputs.size(); ++i) {
      const std::int64_t at = scan.input_directions[i] == 0 ? round : rounds - 1 - round;
      const std::int64_t axis = scan.input_axes[i];
      const std::string part = fmt::format("{}in_{}_{}", name, i, at);
      HTPIPE_TRY(Value * element, onnx_import::slice(call, scan.inputs[i], axis, at, at + 1, part + "_cut"));
      Shape shape = element->type.shape;
      shape.erase(shape.begin() + axis);
      HTPIPE_TRY(element, call.reshape(element, shape, part));
      operands.push_back(element);
    }
    HTPIPE_TRY(const Values results, call.subgraph("body", operands, fmt::format("{}/{}{}", call.name(), name, round)));
    carried.assign(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(states));
    for (std::size_t i = states; i < outputs; ++i) collected[i - states].push_back(results[i]);
  }
  Values results = carried;
  for (std::size_t i = 0; i < collected.size(); ++i) {
    if (scan.output_directions[i] != 0) std::reverse(collected[i].begin(), collected[i].end());
    HTPIPE_TRY(Value * all, stacked(call, collected[i], scan.output_axes[i], fmt::format("{}out_{}", name, i)));
    results.push_back(all);
  }
  return results;
}

Result<IntList> list_of(Call& call, std::string_view attribute, std::size_t size) {
  HTPIPE_TRY(IntList list, call.ints(attribute, IntList(size, 0)));
  if (list.size() != size) return fail(Code::kOnnxInvalid, fmt::format("{} has {} numbers", attribute, list.size()));
  return list;
}

/// Opset 8: a batch of sequences along the second axis, each for itself.
Result<Values> batched_scan(Call& call, Scan scan) {
  if (call.has(0)) return fail(Code::kUnsupportedForm, "Scan with sequence_lens");
  Values operands = scan.states;
  operands.insert(operands.end(), scan.inputs.begin(), scan.inputs.end());
  std::int64_t batch = -1;
  for (const Value* operand : operands) {
    if (operand->type.shape.empty() || (batch >= 0 && operand->type.shape[0] != batch)) {
      return fail(Code::kShapeMismatch, "operands of a Scan differ in their batch");
    }
    batch = operand->type.shape[0];
  }
  std::vector<Values> results(call.output_count());
  for (std::int64_t b = 0; b < batch; ++b) {
    Scan one_scan = scan;
    std::size_t number = 0;
    for (Values* list : {&one_scan.states, &one_scan.inputs}) {
      for (Value*& operand : *list) {
        HTPIPE_TRY(operand, part_of(call, operand, b, fmt::format("batch_{}_{}", b, number++)));
      }
    }
    for (const Value* input : one_scan.inputs) {
      if (input->type.shape.empty()) return fail(Code::kOnnxInvalid, "a scanned input has no second axis");
    }
    HTPIPE_TRY(const Values parts, run_scan(call, one_scan, fmt::format("batch_{}_", b)));
    for (std::size_t i = 0; i < results.size() && i < parts.size(); ++i) results[i].push_back(parts[i]);
  }
  Values all;
  for (std::size_t i = 0; i < results.size(); ++i) {
    HTPIPE_TRY(Value * value, stacked(call, results[i], 0, fmt::format("batch_out_{}", i)));
    all.push_back(value);
  }
  return all;
}

}  // namespace

Result<Values> loop(Call& call) {
  HTPIPE_TRY(const onnx::GraphProto* body, body_of(call));
  std::int64_t rounds = std::numeric_limits<std::int64_t>::max();
  if (call.has(0)) {
    HTPIPE_TRY(const IntList given, call.integers_input(0));
    if (given.size() != 1) return fail(Code::kOnnxInvalid, "the trip count of a Loop is not one number");
    rounds = given[0];
  }
  Value* condition = call.optional_input(1);
  if (condition != nullptr) {
    HTPIPE_TRY(const Tensor given, call.constant_input(1));
    if (given.count() != 1) return fail(Code::kOnnxInvalid, "the condition of a Loop is not one element");
  } else {
    condition = call.scalar("condition", 1, DType::kBool);
  }
  Values carried;
  for (std::size_t i = 2; i < call.input_count(); ++i) {
    HTPIPE_TRY(Value * value, call.input(i));
    carried.push_back(value);
  }
  const std::size_t states = carried.size();
  const auto outputs = static_cast<std::size_t>(body->output_size());
  if (outputs < states + 1) return fail(Code::kOnnxInvalid, "the body of a Loop has too few results");
  std::vector<Values> collected(outputs - states - 1);
  for (std::int64_t round = 0; round < rounds && condition->constant.real(0) != 0.0; ++round) {
    HTPIPE_CHECK_OK(check_round(call, round));
    Values operands = {call.integers(fmt::format("round_{}", round), Shape{}, IntList{round}), condition};
    operands.insert(operands.end(), carried.begin(), carried.end());
    HTPIPE_TRY(const Values results, call.subgraph("body", operands, fmt::format("{}/{}", call.name(), round)));
    condition = results.front();
    if (!condition->is_constant() || condition->type.count() != 1) {
      return fail(Code::kDataDependent, "whether a Loop goes on is known only when the model runs");
    }
    carried.assign(results.begin() + 1, results.begin() + 1 + static_cast<std::ptrdiff_t>(states));
    for (std::size_t i = states + 1; i < outputs; ++i) {
      if (call.is_sequence(results[i])) return fail(Code::kUnsupportedForm, "a Loop that collects sequences");
      collected[i - states - 1].push_back(results[i]);
    }
  }
  Values results = carried;
  for (std::size_t i = 0; i < collected.size(); ++i) {
    Value* all = nullptr;
    if (call.wants(states + i)) {
      HTPIPE_TRY(all, stacked(call, collected[i], 0, fmt::format("collected_{}", i)));
    }
    results.push_back(all);
  }
  return results;
}

Result<Values> scan(Call& call) {
  HTPIPE_TRY(const std::int64_t count, call.integer("num_scan_inputs"));
  const bool batched = call.opset() < 9;
  const std::size_t first = batched ? 1 : 0;
  if (count < 1 || static_cast<std::size_t>(count) + first > call.input_count()) {
    return fail(Code::kOnnxInvalid, fmt::format("num_scan_inputs {}", count));
  }
  const auto scanned = static_cast<std::size_t>(count);
  Scan scan;
  for (std::size_t i = first; i < call.input_count(); ++i) {
    HTPIPE_TRY(Value * value, call.input(i));
    (i + scanned < call.input_count() ? scan.states : scan.inputs).push_back(value);
  }
  HTPIPE_TRY(const onnx::GraphProto* body, body_of(call));
  const auto outputs = static_cast<std::size_t>(body->output_size());
  if (outputs < scan.states.size()) return fail(Code::kOnnxInvalid, "the body of a Scan has too few results");
  const std::size_t collected = outputs - scan.states.size();
  HTPIPE_TRY(scan.input_axes, list_of(call, "scan_input_axes", scanned));
  HTPIPE_TRY(scan.input_directions, list_of(call, batched ? "directions" : "scan_input_directions", scanned));
  HTPIPE_TRY(scan.output_axes, list_of(call, "scan_output_axes", collected));
  HTPIPE_TRY(scan.output_directions, list_of(call, "scan_output_directions", collected));
  if (batched) return batched_scan(call, std::move(scan));
  for (std::size_t i = 0; i < scanned; ++i) {
    HTPIPE_TRY(scan.input_axes[i], normal_axis(scan.input_axes[i], scan.inputs[i]->type.shape.size()));
  }
  return run_scan(call, scan, "");
}

}  // namespace htpipe::onnx_import::map
