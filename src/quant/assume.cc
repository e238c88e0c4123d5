#include "quant/assume.h"

#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <new>
#include <vector>

namespace htpipe::quant {
namespace {

/// Any range: no rule and no validator depends on it.
constexpr Range kAnyRange = {-1.0F, 1.0F};

}  // namespace

bool is_unread(const Tensor& constant) { return constant.count() > kReadElements; }

Tensor unread(TensorType type) {
  const std::size_t size = std::max<std::size_t>(type.size_bytes(), 1);
  // Pages come into being when they are read.
  void* block = mmap(nullptr, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (block == MAP_FAILED) throw std::bad_alloc();
  std::shared_ptr<const void> owner(block, [size](const void* at) { munmap(const_cast<void*>(at), size); });
  return {std::move(type), std::move(owner), static_cast<const std::byte*>(block)};
}

Parameters assumed_parameters(const TensorType& weight, const Tensor& bias, int channel_axis, float input_scale,
                              int bits) {
  const auto channels = static_cast<std::size_t>(weight.shape[static_cast<std::size_t>(channel_axis)]);
  const auto encoding = [](std::size_t count, float scale, int axis, int width) {
    return Encoding{std::vector<float>(count, scale), std::vector<std::int32_t>(count, 0), axis, width};
  };
  const float scale = 1.0F / static_cast<float>((1 << (bits - 1)) - 1);
  Parameters result;
  result.weight =
      unread({bits == 16 ? DType::kI16 : DType::kI8, weight.shape, encoding(channels, scale, channel_axis, bits)});
  if (bias.empty()) return result;
  const std::size_t biases = std::max(channels, static_cast<std::size_t>(bias.count()));
  result.bias = unread({DType::kI32, bias.shape(), encoding(biases, input_scale * scale, 0, 32)});
  return result;
}

Result<Graph> assume_types(const Graph& graph, QuantizeOptions options) {
  options.types_only = true;
  Ranges ranges;
  const auto add = [&ranges](const Value* value) {
    if (is_float(value->type.dtype)) ranges[value->name] = kAnyRange;
  };
  for (const Value* input : graph.inputs()) add(input);
  for (const auto& node : graph.nodes()) {
    // What is cast from integers is stored in steps of 1; how many of them is not known.
    if (node->is("Cast")) continue;
    for (const Value* result : node->results) add(result);
  }
  return quantize(graph, ranges, options);
}

}  // namespace htpipe::quant
