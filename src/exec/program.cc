#include "exec/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/check.h"
#include "exec/arena.h"

namespace htpipe {
Program::Workspace::Workspace(const Program& program, int lanes)
    : arena_(program.arena_bytes_, 0, 1), scratch_(program.scratch_bytes_, program.lane_scratch_bytes_, lanes) {}

std::ptrdiff_t Program::offset_of(const Value* value) const {
  const auto at = std::lower_bound(offsets_.begin(), offsets_.end(), value, [](const auto& item, const Value* wanted) {
    return std::less<>()(item.first, wanted);
  });
  return at != offsets_.end() && at->first == value ? static_cast<std::ptrdiff_t>(at->second) : -1;
}

Result<Program> Program::make(const Graph& graph, int htp_version) {
  Program program;
  program.graph_ = &graph;

  std::vector<const Value*> values;
  std::vector<Lifetime> lifetimes;
  std::unordered_map<const Value*, std::size_t> index;
  const auto begin_life = [&](const Value* value, std::size_t step) {
    index[value] = values.size();
    values.push_back(value);
    lifetimes.push_back({value->type.size_bytes(), step, step});
  };
  const std::size_t end = graph.nodes().size() + 1;
  for (const Value* input : graph.inputs()) begin_life(input, 0);
  std::size_t step = 0;
  for (const auto& node : graph.nodes()) {
    ++step;
    for (const Value* result : node->results) begin_life(result, step);
    for (const Value* operand : node->operands) {
      if (operand != nullptr && !operand->is_constant()) lifetimes[index.at(operand)].last = step;
    }
  }
  for (const Value* output : graph.outputs()) {
    if (!output->is_constant()) lifetimes[index.at(output)].last = end;
  }
  const ArenaPlan plan = plan_arena(lifetimes);
  program.arena_bytes_ = plan.size_bytes;
  program.live_bytes_ = plan.live_bytes;
  for (std::size_t i = 0; i < values.size(); ++i) program.offsets_.emplace_back(values[i], plan.offsets[i]);
  std::sort(program.offsets_.begin(), program.offsets_.end(),
            [](const auto& a, const auto& b) { return std::less<>()(a.first, b.first); });

  for (const auto& node : graph.nodes()) {
    auto kernel = make_kernel(*node, htp_version);
    if (!kernel) return fail(std::move(kernel.error()).at_node(node->name()));
    Step made{node.get(), std::move(*kernel), {}, {}, {}};
    for (const Value* operand : node->operands) {
      const bool constant = operand != nullptr && operand->is_constant();
      made.constants.push_back(constant ? operand->constant.bytes().data() : nullptr);
      made.operands.push_back(operand == nullptr || constant ? -1 : program.offset_of(operand));
    }
    for (const Value* result : node->results) made.results.push_back(program.offset_of(result));
    program.scratch_bytes_ = std::max(program.scratch_bytes_, made.kernel.scratch_bytes);
    program.lane_scratch_bytes_ = std::max(program.lane_scratch_bytes_, made.kernel.lane_scratch_bytes);
    program.steps_.push_back(std::move(made));
  }
  return program;
}

Result<std::vector<Tensor>> Program::run(Workspace& workspace, std::span<const Tensor> inputs,
                                         const Trace& trace) const {
  const auto& wanted = graph_->inputs();
  if (inputs.size() != wanted.size()) {
    return fail(Code::kShapeMismatch, fmt::format("{} inputs given, {} needed", inputs.size(), wanted.size()));
  }
  std::byte* arena = workspace.arena_.scratch();
  const auto view = [&](const Value* value) { return Tensor(value->type, nullptr, arena + offset_of(value)); };

  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value* input = wanted[i];
    if (inputs[i].dtype() != input->type.dtype) {
      return fail(Error(Code::kDtypeMismatch,
                        fmt::format("input is {}, needs {}", name_of(inputs[i].dtype()), name_of(input->type.dtype)))
                      .at_node(input->name));
    }
    if (inputs[i].count() != input->type.count()) {
      return fail(Error(Code::kShapeMismatch, fmt::format("input is {}, needs {}", to_string(inputs[i].shape()),
                                                          to_string(input->type.shape)))
                      .at_node(input->name));
    }
    std::memcpy(arena + offset_of(input), inputs[i].bytes().data(), inputs[i].bytes().size());
    if (trace) trace(*input, view(input));
  }
  std::vector<const void*> operands;
  std::vector<void*> results;
  for (const Step& step : steps_) {
    operands.clear();
    results.clear();
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      operands.push_back(step.operands[i] < 0 ? step.constants[i] : arena + step.operands[i]);
    }
    for (const std::ptrdiff_t offset : step.results) results.push_back(arena + offset);
    step.kernel.run({operands, results, workspace.scratch_.scratch(), workspace.scratch_.lanes()});
    if (!trace) continue;
    for (const Value* result : step.node->results) trace(*result, view(result));
  }
  std::vector<Tensor> outputs;
  for (const Value* output : graph_->outputs()) {
    Tensor copy(output->type);
    const std::byte* source = output->is_constant() ? output->constant.bytes().data() : arena + offset_of(output);
    std::memcpy(copy.mutable_data<std::byte>().data(), source, output->type.size_bytes());
    outputs.push_back(std::move(copy));
  }
  return outputs;
}

Result<std::vector<Tensor>> run_once(const Graph& graph, std::span<const Tensor> inputs, int htp_version,
                                     const Trace& trace) {
  HTPIPE_TRY(const Program program, Program::make(graph, htp_version));
  Program::Workspace workspace(program);
  return program.run(workspace, inputs, trace);
}

}  // namespace htpipe
