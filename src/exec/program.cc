#include "exec/program.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>

#include "base/check.h"
#include "exec/arena.h"
#include "kernels/fixed/rounding.h"

namespace htpipe {
namespace {

bool any_f16(const Node& node) {
  const auto f16 = [](const Value* value) { return value != nullptr && value->type.dtype == DType::kF16; };
  return std::any_of(node.results.begin(), node.results.end(), f16) ||
         std::any_of(node.operands.begin(), node.operands.end(), f16);
}

bool all_float(const Node& node) {
  const auto floating = [](const Value* value) { return value == nullptr || is_float(value->type.dtype); };
  return std::all_of(node.results.begin(), node.results.end(), floating) &&
         std::all_of(node.operands.begin(), node.operands.end(), floating);
}

TensorType as_f32(TensorType type) {
  type.dtype = DType::kF32;
  return type;
}

Tensor widen(const Tensor& tensor) {
  const std::vector<float> values = to_floats(tensor);
  return Tensor::from<float>(as_f32(tensor.type()), values);
}

/// A float kernel on FP16 values: operands are widened, the float32 result is rounded once to binary16, as the chip
/// rounds it.
Result<Kernel> f16_kernel(const Node& node) {
  const NodeTypes types(node);
  const NodeView view = types.view();
  std::vector<TensorType> operand_types(node.operands.size());
  std::vector<Tensor> constants(node.operands.size());
  std::vector<const TensorType*> type_pointers(node.operands.size(), nullptr);
  std::vector<const Tensor*> constant_pointers(node.operands.size(), nullptr);
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (!view.has(i)) continue;
    operand_types[i] = as_f32(view.type(i));
    type_pointers[i] = &operand_types[i];
    if (view.constants[i] == nullptr) continue;
    constants[i] = widen(*view.constants[i]);
    constant_pointers[i] = &constants[i];
  }
  std::vector<TensorType> result_types;
  for (const Value* result : node.results) result_types.push_back(as_f32(result->type));
  std::vector<const TensorType*> result_pointers;
  for (const TensorType& type : result_types) result_pointers.push_back(&type);
  HTPIPE_TRY(Kernel inner,
             node.op->float_kernel({{node.attributes, type_pointers, constant_pointers}, result_pointers, 0}));

  std::vector<DType> from;
  std::vector<DType> to;
  std::size_t floats = 0;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    from.push_back(view.has(i) && view.constants[i] == nullptr ? view.type(i).dtype : DType::kF32);
    if (from.back() == DType::kF16) floats += static_cast<std::size_t>(view.type(i).count());
  }
  for (const Value* result : node.results) {
    to.push_back(result->type.dtype);
    floats += static_cast<std::size_t>(result->type.count());
  }
  Kernel kernel;
  kernel.scratch_bytes = inner.scratch_bytes + floats * sizeof(float) + 64;
  kernel.run = [inner, from, to, operand_types, result_types, constants](const KernelCall& call) {
    auto* next = reinterpret_cast<float*>(call.scratch);
    std::vector<const void*> operands(call.operands.begin(), call.operands.end());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!constants[i].empty()) operands[i] = constants[i].bytes().data();
      if (from[i] != DType::kF16) continue;
      const auto* source = static_cast<const std::uint16_t*>(operands[i]);
      operands[i] = next;
      const std::int64_t count = operand_types[i].count();
      for (std::int64_t j = 0; j < count; ++j) *next++ = from_f16(source[j]);
    }
    std::vector<void*> results(call.results.begin(), call.results.end());
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (to[i] != DType::kF16) continue;
      results[i] = next;
      next += result_types[i].count();
    }
    inner.run({operands, results, reinterpret_cast<std::byte*>(next)});
    for (std::size_t i = 0; i < results.size(); ++i) {
      if (to[i] != DType::kF16) continue;
      const auto* source = static_cast<const float*>(results[i]);
      auto* target = static_cast<std::uint16_t*>(call.results[i]);
      for (std::int64_t j = 0; j < result_types[i].count(); ++j) target[j] = kernels::to_f16_half_away(source[j]);
    }
  };
  return kernel;
}

Result<Kernel> make_kernel(const Node& node, int htp_version) {
  if (all_float(node)) {
    if (!node.op->float_kernel) return fail(Code::kUnsupportedForm, fmt::format("{} has no float rule", node.op->name));
    if (any_f16(node)) return f16_kernel(node);
    const NodeTypes types(node);
    return node.op->float_kernel({types.view(), types.results(), htp_version});
  }
  if (!node.op->fixed_kernel) {
    return fail(Code::kNoFixedRule, fmt::format("{} has no fixed-point rule", node.op->name));
  }
  const NodeTypes types(node);
  return node.op->fixed_kernel({types.view(), types.results(), htp_version});
}

}  // namespace

Program::Workspace::Workspace(const Program& program)
    : arena_((program.arena_bytes_ + 64) / 8 + 8), scratch_((program.scratch_bytes_ + 64) / 8 + 8) {}

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
  std::map<const Value*, std::size_t> index;
  const auto begin_life = [&](const Value* value, std::size_t step) {
    index[value] = values.size();
    values.push_back(value);
    lifetimes.push_back({value->type.size_bytes(), step, step});
  };
  const std::size_t end = graph.nodes().size() + 1;
  for (const Value* input : graph.inputs()) begin_life(input, 0);
  for (std::size_t step = 0; step < graph.nodes().size(); ++step) {
    const Node& node = *graph.nodes()[step];
    for (const Value* result : node.results) begin_life(result, step + 1);
    for (const Value* operand : node.operands) {
      if (operand != nullptr && !operand->is_constant()) lifetimes[index.at(operand)].last = step + 1;
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
    Step step{node.get(), std::move(*kernel), {}, {}, {}};
    for (const Value* operand : node->operands) {
      const bool constant = operand != nullptr && operand->is_constant();
      step.constants.push_back(constant ? operand->constant.bytes().data() : nullptr);
      step.operands.push_back(operand == nullptr || constant ? -1 : program.offset_of(operand));
    }
    for (const Value* result : node->results) step.results.push_back(program.offset_of(result));
    program.scratch_bytes_ = std::max(program.scratch_bytes_, step.kernel.scratch_bytes);
    program.steps_.push_back(std::move(step));
  }
  return program;
}

Result<std::vector<Tensor>> Program::run(Workspace& workspace, std::span<const Tensor> inputs,
                                         const Trace& trace) const {
  const auto& wanted = graph_->inputs();
  if (inputs.size() != wanted.size()) {
    return fail(Code::kShapeMismatch, fmt::format("{} inputs given, {} needed", inputs.size(), wanted.size()));
  }
  const auto align = [](std::vector<std::uint64_t>& block) {
    const auto address = reinterpret_cast<std::uintptr_t>(block.data());
    return reinterpret_cast<std::byte*>((address + 63) / 64 * 64);
  };
  std::byte* arena = align(workspace.arena_);
  std::byte* scratch = align(workspace.scratch_);
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
    step.kernel.run({operands, results, scratch});
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
