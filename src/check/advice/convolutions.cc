// Advice about convolutions and linear layers: what their sizes leave unused.
#include <fmt/format.h>

#include <algorithm>

#include "check/advice/adviser.h"

namespace htpipe::check {
namespace {

constexpr std::int64_t kTile = 32;  ///< channels that the matrix unit takes at once
constexpr double kWorth = 1.1;      ///< times the work: less is not worth words
constexpr std::int64_t kLargeKernel = 7;
constexpr std::uint64_t kLargeWeights = 1 << 20;  ///< bytes
constexpr std::int64_t kFewRows = 16;

double filled(std::int64_t channels) {
  return static_cast<double>((channels + kTile - 1) / kTile * kTile) / static_cast<double>(channels);
}

std::int64_t product(const std::vector<std::int64_t>& numbers) {
  std::int64_t all = 1;
  for (const std::int64_t number : numbers) all *= number;
  return all;
}

bool any_above(const std::vector<std::int64_t>& numbers, std::int64_t limit) {
  return std::any_of(numbers.begin(), numbers.end(), [limit](std::int64_t number) { return number > limit; });
}

/// Height and width of the kernel of a channel-last convolution.
std::vector<std::int64_t> kernel_of(const Node& node) {
  const Shape& shape = node.operands[1]->type.shape;
  return {shape[0], shape[1]};
}

void about_conv(Adviser& adviser, const Node& node) {
  const Shape& in = node.operands[0]->type.shape;
  const std::int64_t ins = in.back();
  const std::int64_t outs = node.result()->type.shape.back();
  const std::int64_t groups = std::max<std::int64_t>(1, node.attributes.integer("group"));
  const auto kernel = kernel_of(node);
  const std::int64_t own = Adviser::macs_of(node);
  const bool heavy = adviser.is_heavy(own);
  const auto macs = static_cast<double>(own);
  const bool first = node.operands[0]->producer == nullptr;
  if (groups > 1 && outs / groups < kTile) {
    adviser.add("conv-grouped", &node, fmt::format("{} groups of {} channels", groups, outs / groups),
                Gain{macs * (filled(outs / groups) * filled(std::max<std::int64_t>(1, ins / groups)) - 1),
                     "multiply-adds with zeros"});
  } else if (ins <= 4 && (first || kernel[0] > 1)) {
    adviser.add("stem-few-channels", &node, fmt::format("{} of {} channels", ins, kTile),
                Gain{macs * (filled(ins) - 1), "multiply-adds with zeros"});
  } else if (const double waste = filled(ins) * filled(outs); waste > kWorth && heavy) {
    adviser.add("conv-channels-32", &node, fmt::format("{} to {} channels", ins, outs),
                Gain{macs * (waste - 1), "multiply-adds with zeros"});
  }
  if (any_above(node.attributes.integers("dilation"), 1)) {
    adviser.add("conv-dilated", &node,
                fmt::format("dilation {}", fmt::join(node.attributes.integers("dilation"), " x ")));
  }
  if (any_above(kernel, kLargeKernel) && heavy) {
    const auto stacked = static_cast<double>((std::max(kernel[0], kernel[1]) - 1) / 2 * 9);
    const double factor = stacked / static_cast<double>(product(kernel));
    std::optional<Gain> gain;
    if (factor < 1 && kernel[0] > 1 && kernel[1] > 1) gain = Gain{macs * (1 - factor), "multiply-adds"};
    adviser.add("conv-kernel-large", &node, fmt::format("{} x {}", kernel[0], kernel[1]), gain);
  }
  const auto& stride = node.attributes.integers("stride");
  if (product(kernel) == 1 && any_above(stride, 1)) {
    const auto bytes = static_cast<double>(stored_bytes_of(*node.operands[0], adviser.subject));
    adviser.add("conv-pointwise-strided", &node, fmt::format("stride {}", fmt::join(stride, " x ")),
                Gain{bytes * (1 - 1.0 / static_cast<double>(product(stride))), "bytes read for nothing"});
  }
}

void about_linear(Adviser& adviser, const Node& node) {
  const Shape& shape = node.result()->type.shape;
  const std::int64_t rows = shape.empty() ? 1 : node.result()->type.count() / std::max<std::int64_t>(1, shape.back());
  const std::uint64_t bytes = stored_bytes_of(*node.operands[1], adviser.subject);
  if (rows >= kFewRows || bytes < kLargeWeights) return;
  adviser.add("linear-memory-bound", &node, fmt::format("{} bytes for {} rows", bytes, rows),
              Gain{static_cast<double>(bytes) / 2, "bytes of weights"});
}

/// Linear layers that read one value: each rule's place is the first of them.
void about_siblings(Adviser& adviser, const Value& value) {
  std::vector<const Node*> layers;
  for (const Node* user : value.users) {
    if (user->is("FullyConnected") && user->operands[0] == &value) layers.push_back(user);
  }
  if (layers.size() < 2) return;
  adviser.add(
      "attention-unmerged", layers.front(), fmt::format("{} layers read %{}", layers.size(), value.name),
      Gain{static_cast<double>(stored_bytes_of(value, adviser.subject)) * static_cast<double>(layers.size() - 1),
           "bytes read again"});
}

}  // namespace

void advise_convolutions(Adviser& adviser) {
  const Target& target = adviser.subject.target;
  std::uint64_t depthwise = 0;
  const Node* first_depthwise = nullptr;
  for (const auto& node : adviser.subject.optimised.nodes()) {
    if (node->operands.empty()) continue;
    if (node->is("Conv2d") && node->operands[1]->is_constant()) about_conv(adviser, *node);
    if (node->is("FullyConnected") && node->operands[1]->is_constant()) about_linear(adviser, *node);
    if (node->is("DepthWiseConv2d") && node->operands[1]->is_constant()) {
      depthwise += stored_bytes_of(*node->operands[1], adviser.subject);
      if (first_depthwise == nullptr) first_depthwise = node.get();
    }
    for (const Value* result : node->results) about_siblings(adviser, *result);
  }
  for (const Value* input : adviser.subject.optimised.inputs()) about_siblings(adviser, *input);
  if (first_depthwise != nullptr && target.htp_version < 73) {
    adviser.add("depthwise-copies", first_depthwise, fmt::format("{} bytes on {}", depthwise, target.arch()),
                Gain{static_cast<double>(depthwise) * 23, "bytes of context"});
  }
}

}  // namespace htpipe::check
