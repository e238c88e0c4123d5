#include "exec/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "base/check.h"
#include "ops/in_place.h"

namespace htpipe {

/// Everything that is made once per graph.
struct Program::Kernels {
  struct Made {
    Kernel kernel;
    std::vector<const void*> constants;  ///< per operand; null for activations and absent operands
  };
  std::unordered_map<const Node*, Made> nodes;
  std::unordered_map<const Value*, Simulation> simulations;  ///< of inputs and results
  std::unordered_map<const Value*, Tensor> constants;        ///< rounded
  /// Nodes with rounded constants in place of the graph's own, which kernels may go on reading.
  std::deque<Node> twins;
  std::deque<Value> twin_values;

  Status add_simulations(const Graph& graph, const std::map<std::string, StoredAs>& simulated) {
    for (const auto& [name, stored] : simulated) {
      const Value* value = graph.find_value(name);
      if (value == nullptr) return fail(Code::kUsage, fmt::format("no value %{} to be rounded", name));
      auto simulation = Simulation::make(value->type, stored);
      if (!simulation) return fail(std::move(simulation.error()).at_node(name));
      if (!value->is_constant()) {
        simulations.emplace(value, std::move(*simulation));
        continue;
      }
      Tensor rounded = Tensor::from<float>(value->type, value->constant.data<float>());
      simulation->apply(rounded.mutable_data<float>().data(), 1);
      constants.emplace(value, std::move(rounded));
    }
    return {};
  }

  /// The node itself, or one that takes the rounded constants.
  const Node& with_rounded_constants(const Node& node) {
    const auto rounded = [this](const Value* value) { return constants.count(value) != 0; };
    if (std::none_of(node.operands.begin(), node.operands.end(), rounded)) return node;
    Node& twin = twins.emplace_back(node);
    for (Value*& operand : twin.operands) {
      if (!rounded(operand)) continue;
      Value& value = twin_values.emplace_back();
      value.name = operand->name;
      value.type = operand->type;
      value.constant = constants.at(operand);
      operand = &value;
    }
    return twin;
  }

  Status add(const Node& node, int htp_version) {
    const Node& prepared = with_rounded_constants(node);
    auto kernel = make_kernel(prepared, htp_version);
    if (!kernel) return fail(std::move(kernel.error()).at_node(node.name()));
    Made made{std::move(*kernel), {}};
    for (const Value* operand : prepared.operands) {
      const bool constant = operand != nullptr && operand->is_constant();
      made.constants.push_back(constant ? operand->constant.bytes().data() : nullptr);
    }
    nodes.emplace(&node, std::move(made));
    return {};
  }

  [[nodiscard]] const Simulation* simulation_of(const Value* value) const {
    const auto at = simulations.find(value);
    return at == simulations.end() ? nullptr : &at->second;
  }
};

Trace only(std::span<const Value* const> values, Trace trace) {
  return [wanted = std::set<const Value*>(values.begin(), values.end()), trace = std::move(trace)](
             const Value& value, const Tensor& tensor) {
    if (wanted.count(&value) != 0) trace(value, tensor);
  };
}

Program::Workspace::Workspace(const Program& program, int lanes)
    : arena_(program.plan_.arena_bytes, 0, 1), scratch_(program.scratch_bytes_, program.lane_scratch_bytes_, lanes) {}

Result<Program> Program::make(const Graph& graph, const ProgramOptions& options) {
  Program program;
  program.graph_ = &graph;
  auto kernels = std::make_shared<Kernels>();
  HTPIPE_CHECK_OK(kernels->add_simulations(graph, options.simulated));
  std::vector<const Node*> nodes;
  for (const auto& node : graph.nodes()) {
    HTPIPE_CHECK_OK(kernels->add(*node, options.htp_version));
    nodes.push_back(node.get());
  }
  program.kernels_ = std::move(kernels);
  program.plan(std::move(nodes), {graph.inputs().begin(), graph.inputs().end()});
  return program;
}

void Program::plan(std::vector<const Node*> nodes, std::vector<const Value*> inputs) {
  inputs_ = std::move(inputs);
  const std::unordered_set<const Value*> given(inputs_.begin(), inputs_.end());
  const std::vector<const Value*> outputs(graph_->outputs().begin(), graph_->outputs().end());
  const auto shares = [&](const Node& node) {
    // A result that is rounded in place must not take its operand along.
    return ops::keeps_bytes(node) && kernels_->simulation_of(node.result()) == nullptr &&
           given.count(node.result()) == 0;
  };
  plan_ = plan_memory(nodes, inputs_, outputs, shares);
  for (const Node* node : plan_.order) {
    const Kernels::Made& made = kernels_->nodes.at(node);
    Step step{node, &made.kernel, made.constants, {}, {}, {}, {}};
    for (std::size_t i = 0; i < node->operands.size(); ++i) {
      const bool none = node->operands[i] == nullptr || node->operands[i]->is_constant();
      step.operands.push_back(none ? -1 : static_cast<std::ptrdiff_t>(plan_.offset_of(node->operands[i])));
    }
    for (const Value* result : node->results) {
      step.results.push_back(static_cast<std::ptrdiff_t>(plan_.offset_of_result(result)));
      step.given.push_back(given.count(result) != 0);
      step.simulations.push_back(step.given.back() ? nullptr : kernels_->simulation_of(result));
    }
    if (shares(*node) && step.operands[0] == step.results[0]) step.kernel = nullptr;
    scratch_bytes_ = std::max(scratch_bytes_, made.kernel.scratch_bytes);
    lane_scratch_bytes_ = std::max(lane_scratch_bytes_, made.kernel.lane_scratch_bytes);
    steps_.push_back(std::move(step));
  }
}

std::vector<const Value*> Program::cut_behind(std::span<const Value* const> changed) const {
  const std::unordered_set<const Value*> first(changed.begin(), changed.end());
  std::unordered_set<const Value*> behind = first;
  std::vector<const Value*> given(changed.begin(), changed.end());
  std::unordered_set<const Value*> listed = first;
  const auto list = [&](const Value* value) {
    if (value == nullptr || value->is_constant() || behind.count(value) != 0) return;
    if (listed.insert(value).second) given.push_back(value);
  };
  std::vector<const Node*> affected;
  for (const Step& step : steps_) {
    const auto& operands = step.node->operands;
    if (std::none_of(operands.begin(), operands.end(), [&](const Value* v) { return behind.count(v) != 0; })) continue;
    affected.push_back(step.node);
    behind.insert(step.node->results.begin(), step.node->results.end());
  }
  for (const Node* node : affected) {
    for (const Value* operand : node->operands) list(operand);
  }
  for (const Value* output : graph_->outputs()) list(output);
  return given;
}

Result<Program> Program::starting_at(std::span<const Value* const> given) const {
  const std::unordered_set<const Value*> known(given.begin(), given.end());
  std::unordered_set<const Node*> needed;
  std::vector<const Value*> open(graph_->outputs().begin(), graph_->outputs().end());
  while (!open.empty()) {
    const Value* value = open.back();
    open.pop_back();
    if (value == nullptr || value->is_constant() || known.count(value) != 0) continue;
    if (value->producer == nullptr) {
      return fail(Error(Code::kUsage, "the outputs need this value, which is neither given nor computed from what is")
                      .at_node(value->name));
    }
    if (!needed.insert(value->producer).second) continue;
    open.insert(open.end(), value->producer->operands.begin(), value->producer->operands.end());
  }
  std::vector<const Node*> nodes;
  for (const auto& node : graph_->nodes()) {
    if (needed.count(node.get()) != 0) nodes.push_back(node.get());
  }
  Program program;
  program.graph_ = graph_;
  program.kernels_ = kernels_;
  program.plan(std::move(nodes), {given.begin(), given.end()});
  return program;
}

Result<std::vector<Tensor>> Program::run(Workspace& workspace, std::span<const Tensor> inputs,
                                         const Trace& trace) const {
  if (inputs.size() != inputs_.size()) {
    return fail(Code::kShapeMismatch, fmt::format("{} inputs given, {} needed", inputs.size(), inputs_.size()));
  }
  std::byte* arena = workspace.arena_.scratch();
  const int lanes = workspace.scratch_.lanes().count;
  const auto view = [&](const Value* value, std::ptrdiff_t offset) {
    return Tensor(value->type, nullptr, arena + offset);
  };
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value* input = inputs_[i];
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
    const auto offset = static_cast<std::ptrdiff_t>(plan_.offset_of(input));
    const Bytes bytes = inputs[i].bytes();
    if (!bytes.empty()) std::memcpy(arena + offset, bytes.data(), bytes.size());
    if (const Simulation* simulation = kernels_->simulation_of(input)) {
      simulation->apply(reinterpret_cast<float*>(arena + offset), lanes);
    }
    if (trace) trace(*input, view(input, offset));
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
    if (step.kernel != nullptr) {
      step.kernel->run({operands, results, workspace.scratch_.scratch(), workspace.scratch_.lanes()});
    }
    for (std::size_t i = 0; i < step.results.size(); ++i) {
      if (step.simulations[i] != nullptr) step.simulations[i]->apply(static_cast<float*>(results[i]), lanes);
      if (trace && !step.given[i]) trace(*step.node->results[i], view(step.node->results[i], step.results[i]));
    }
  }
  std::vector<Tensor> outputs;
  for (const Value* output : graph_->outputs()) {
    Tensor copy(output->type);
    const auto rounded = kernels_->constants.find(output);
    const Tensor& constant = rounded == kernels_->constants.end() ? output->constant : rounded->second;
    const std::byte* source = output->is_constant() ? constant.bytes().data() : arena + plan_.offset_of(output);
    const std::size_t size = output->type.size_bytes();
    if (size > 0) std::memcpy(copy.mutable_data<std::byte>().data(), source, size);
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
