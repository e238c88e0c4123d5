#include "ops/evaluate.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "kernels/fixed/rounding.h"
#include "ops/fusions.h"

namespace htpipe {
namespace {

bool any_encoding(const Node& node) {
  const auto encoded = [](const Value* value) { return value != nullptr && value->type.encoding.has_value(); };
  return std::any_of(node.operands.begin(), node.operands.end(), encoded) ||
         std::any_of(node.results.begin(), node.results.end(), encoded);
}

/// The type that plain kernels compute in.
DType wide(DType dtype) {
  if (dtype == DType::kBool) return dtype;
  return is_float(dtype) ? DType::kF32 : DType::kI64;
}

bool is_wide(const Value* value) { return value == nullptr || wide(value->type.dtype) == value->type.dtype; }

TensorType widened(TensorType type) {
  type.dtype = wide(type.dtype);
  return type;
}

template <typename To, typename From>
void convert(const void* from, void* to, std::int64_t count) {
  const auto* source = static_cast<const From*>(from);
  auto* target = static_cast<To*>(to);
  for (std::int64_t i = 0; i < count; ++i) target[i] = static_cast<To>(source[i]);
}

template <typename To, typename From, typename Function>
void map(const void* from, void* to, std::int64_t count, Function function) {
  const auto* source = static_cast<const From*>(from);
  auto* target = static_cast<To*>(to);
  for (std::int64_t i = 0; i < count; ++i) target[i] = function(source[i]);
}

void widen(DType from, const void* source, void* target, std::int64_t count) {
  switch (from) {
    case DType::kF64:
      return convert<float, double>(source, target, count);
    case DType::kF16:
      return map<float, std::uint16_t>(source, target, count, from_f16);
    case DType::kBF16:
      return map<float, std::uint16_t>(source, target, count, from_bf16);
    case DType::kI32:
      return convert<std::int64_t, std::int32_t>(source, target, count);
    case DType::kI16:
      return convert<std::int64_t, std::int16_t>(source, target, count);
    case DType::kI8:
      return convert<std::int64_t, std::int8_t>(source, target, count);
    case DType::kU64:
      return convert<std::int64_t, std::uint64_t>(source, target, count);
    case DType::kU32:
      return convert<std::int64_t, std::uint32_t>(source, target, count);
    case DType::kU16:
      return convert<std::int64_t, std::uint16_t>(source, target, count);
    case DType::kU8:
      return convert<std::int64_t, std::uint8_t>(source, target, count);
    case DType::kF32:
    case DType::kI64:
    case DType::kBool:
      std::memcpy(target, source, static_cast<std::size_t>(count) * size_of(from));
  }
}

void narrow(DType to, const void* source, void* target, std::int64_t count) {
  switch (to) {
    case DType::kF64:
      return convert<double, float>(source, target, count);
    case DType::kF16:
      return map<std::uint16_t, float>(source, target, count, kernels::to_f16_half_away);
    case DType::kBF16:
      return map<std::uint16_t, float>(source, target, count, to_bf16);
    case DType::kI32:
      return convert<std::int32_t, std::int64_t>(source, target, count);
    case DType::kI16:
      return convert<std::int16_t, std::int64_t>(source, target, count);
    case DType::kI8:
      return convert<std::int8_t, std::int64_t>(source, target, count);
    case DType::kU64:
      return convert<std::uint64_t, std::int64_t>(source, target, count);
    case DType::kU32:
      return convert<std::uint32_t, std::int64_t>(source, target, count);
    case DType::kU16:
      return convert<std::uint16_t, std::int64_t>(source, target, count);
    case DType::kU8:
      return convert<std::uint8_t, std::int64_t>(source, target, count);
    case DType::kF32:
    case DType::kI64:
    case DType::kBool:
      std::memcpy(target, source, static_cast<std::size_t>(count) * size_of(to));
  }
}

Tensor widen(const Tensor& tensor) {
  Tensor result(widened(tensor.type()));
  widen(tensor.dtype(), tensor.bytes().data(), result.mutable_data<std::byte>().data(), tensor.count());
  return result;
}

/// One operand or result of a node whose kernel computes in another width.
struct Port {
  DType stored = DType::kF32;
  std::int64_t count = 0;
  bool converted = false;
  Tensor constant;  ///< an operand that was widened once, when the kernel was made

  [[nodiscard]] std::size_t bytes() const {  ///< scratch for the wide copy, a multiple of 8
    return converted ? (static_cast<std::size_t>(count) * size_of(wide(stored)) + 7) / 8 * 8 : 0;
  }
};

bool any_f64(const Node& node) {
  return std::any_of(node.operands.begin(), node.operands.end(),
                     [](const Value* value) { return value != nullptr && value->type.dtype == DType::kF64; });
}

Result<Kernel> converting_kernel(const Node& node) {
  const NodeTypes types(node);
  const NodeView view = types.view();
  std::vector<TensorType> operand_types(node.operands.size());
  std::vector<const TensorType*> type_pointers(node.operands.size(), nullptr);
  std::vector<const Tensor*> constants(node.operands.size(), nullptr);
  std::vector<Port> operands(node.operands.size());
  std::size_t scratch = 0;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    if (!view.has(i)) continue;
    operand_types[i] = widened(view.type(i));
    type_pointers[i] = &operand_types[i];
    constants[i] = view.constants[i];
    operands[i].stored = view.type(i).dtype;
    operands[i].count = view.type(i).count();
    if (is_wide(node.operands[i])) continue;
    if (view.constants[i] != nullptr) {
      operands[i].constant = widen(*view.constants[i]);
      constants[i] = &operands[i].constant;
    } else {
      operands[i].converted = true;
      scratch += operands[i].bytes();
    }
  }
  std::vector<TensorType> result_types;
  std::vector<Port> results;
  for (const Value* result : node.results) {
    result_types.push_back(widened(result->type));
    results.push_back({result->type.dtype, result->type.count(), !is_wide(result), {}});
    scratch += results.back().bytes();
  }
  std::vector<const TensorType*> result_pointers;
  for (const TensorType& type : result_types) result_pointers.push_back(&type);
  HTPIPE_TRY(Kernel inner, node.op->float_kernel({{node.attributes, type_pointers, constants}, result_pointers, 0}));

  Kernel kernel;
  kernel.scratch_bytes = inner.scratch_bytes + scratch + 64;
  kernel.lane_scratch_bytes = inner.lane_scratch_bytes;
  kernel.run = [inner, operands, results](const KernelCall& call) {
    std::byte* next = call.scratch;
    std::vector<const void*> sources(call.operands.begin(), call.operands.end());
    for (std::size_t i = 0; i < sources.size(); ++i) {
      if (!operands[i].constant.empty()) sources[i] = operands[i].constant.bytes().data();
      if (!operands[i].converted) continue;
      widen(operands[i].stored, sources[i], next, operands[i].count);
      sources[i] = next;
      next += operands[i].bytes();
    }
    std::vector<void*> targets(call.results.begin(), call.results.end());
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (!results[i].converted) continue;
      targets[i] = next;
      next += results[i].bytes();
    }
    const auto address = reinterpret_cast<std::uintptr_t>(next);
    inner.run({sources, targets, next + ((64 - address % 64) % 64), call.lanes});
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (results[i].converted) narrow(results[i].stored, targets[i], call.results[i], results[i].count);
    }
  };
  return kernel;
}

}  // namespace

CallMemory::CallMemory(std::size_t scratch_bytes, std::size_t lane_scratch_bytes, int lanes)
    : lanes_{lanes, nullptr, (lane_scratch_bytes + 63) / 64 * 64} {
  const std::size_t own = (scratch_bytes + 63) / 64 * 64;
  bytes_ = std::make_unique_for_overwrite<std::byte[]>(own + static_cast<std::size_t>(lanes) * lanes_.stride + 64);
  const auto address = reinterpret_cast<std::uintptr_t>(bytes_.get());
  scratch_ = bytes_.get() + (64 - address % 64) % 64;
  lanes_.scratch = scratch_ + own;
}

Result<Kernel> make_kernel(const Node& node, int htp_version) {
  const NodeTypes types(node);
  if (any_encoding(node)) {
    if (!node.op->fixed_kernel) {
      return fail(Code::kNoFixedRule, fmt::format("{} has no fixed-point rule", node.op->name));
    }
    if (htp_version != 0) {
      HTPIPE_TRY(std::optional<Kernel> fused, ops::fused_kernel(node));
      if (fused) return std::move(*fused);
    }
    return node.op->fixed_kernel({types.view(), types.results(), htp_version});
  }
  if (!node.op->float_kernel) return fail(Code::kUnsupportedForm, fmt::format("{} has no float rule", node.op->name));
  if (node.op->double_kernel && any_f64(node)) {
    if (auto kernel = node.op->double_kernel({types.view(), types.results(), htp_version})) return kernel;
  }
  const bool as_is = node.op->any_dtype || (std::all_of(node.operands.begin(), node.operands.end(), is_wide) &&
                                            std::all_of(node.results.begin(), node.results.end(), is_wide));
  if (!as_is) return converting_kernel(node);
  return node.op->float_kernel({types.view(), types.results(), htp_version});
}

Result<std::vector<Tensor>> evaluate(const Node& node, std::size_t max_scratch_bytes) {
  HTPIPE_TRY(const Kernel kernel, make_kernel(node, 0));
  const std::size_t needed = kernel.scratch_bytes + kernel.lane_scratch_bytes;
  if (needed > max_scratch_bytes) {
    return fail(Code::kUnsupportedForm, fmt::format("{} needs {} bytes of scratch", node.op->name, needed));
  }
  std::vector<Tensor> tensors;
  std::vector<void*> results;
  for (const Value* result : node.results) tensors.emplace_back(result->type);
  for (Tensor& tensor : tensors) results.push_back(tensor.mutable_data<std::byte>().data());
  std::vector<const void*> operands;
  for (const Value* operand : node.operands) {
    operands.push_back(operand != nullptr ? operand->constant.bytes().data() : nullptr);
  }
  CallMemory memory(kernel, 1);
  kernel.run({operands, results, memory.scratch(), memory.lanes()});
  return tensors;
}

}  // namespace htpipe
