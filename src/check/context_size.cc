#include "check/context_size.h"

#include <algorithm>

#include "check/live_sets.h"

namespace htpipe::check {
namespace {

constexpr std::uint64_t kChannels = 32;  ///< weights are padded to whole blocks of so many channels
/// Bias, multiplier and correction of a channel.
constexpr double kBytesPerChannel = 5.3;
/// Bytes of a tap of depthwise weights. v68 spreads each over a block of channels.
constexpr double kDepthwiseV68 = 30;
constexpr double kDepthwise8 = 4.7;
constexpr double kDepthwise16 = 7;
constexpr std::uint64_t kHeader = 16384;
constexpr std::uint64_t kBytesPerNode = 870;
/// Bytes of schedule per byte that a node reads and writes: large tensors are worked on in pieces.
constexpr double kBytesPerActivation = 0.00132;

double padded(std::int64_t size) {
  const auto blocks = (static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)) + kChannels - 1) / kChannels;
  return static_cast<double>(blocks * kChannels);
}

/// A filter per channel: [height, width, 1, channels] on more than one channel.
bool is_depthwise(const Node& node, const TensorType& weight) {
  const Shape& data = node.operands[0]->type.shape;
  const bool filter = node.op->operands.size() > 1 && node.op->operands[1].role == Role::kWeight;
  return filter && weight.shape.size() == 4 && weight.shape[2] == 1 && !data.empty() && data.back() > 1;
}

double depthwise_factor(const Node& node, int htp_version) {
  if (htp_version < 73) return kDepthwiseV68;
  return size_of(node.operands[0]->type.dtype) == 1 ? kDepthwise8 : kDepthwise16;
}

std::uint64_t constant_bytes(const Node& node, std::size_t operand, int htp_version) {
  const TensorType& type = node.operands[operand]->type;
  const Shape& shape = type.shape;
  const auto plain = static_cast<double>(stored_bytes(type));
  if (type.count() == 0) return 0;
  double bytes = plain;
  if (operand > 0 && shape.size() == 1) {
    bytes = kBytesPerChannel * padded(shape[0]);
  } else if (operand == 1 && is_depthwise(node, type)) {
    bytes = static_cast<double>(shape[0] * shape[1]) * padded(shape[3]) * depthwise_factor(node, htp_version);
  } else if (operand == 1 && shape.size() >= 2) {
    const std::int64_t rows = shape[shape.size() - 2];
    const std::int64_t columns = shape.back();
    // Windows on one channel become matrices of the window's size.
    const double inputs = rows == 1 ? 1 : padded(rows);
    bytes = plain / static_cast<double>(rows * columns) * inputs * padded(columns);
  }
  return static_cast<std::uint64_t>(bytes);
}

std::uint64_t node_bytes(const Node& node) {
  std::uint64_t moved = 0;
  for (const Value* operand : node.operands) {
    if (operand != nullptr && !operand->is_constant()) moved += stored_bytes(operand->type);
  }
  for (const Value* result : node.results) moved += stored_bytes(result->type);
  return kBytesPerNode + static_cast<std::uint64_t>(kBytesPerActivation * static_cast<double>(moved));
}

}  // namespace

void ContextSize::add(const Node& node) {
  bytes_ += node_bytes(node);
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Value* operand = node.operands[i];
    if (operand == nullptr || !operand->is_constant()) continue;
    Held& held = held_[operand];
    if (held.users++ > 0) continue;
    held.bytes = constant_bytes(node, i, htp_version_);
    bytes_ += held.bytes;
  }
}

void ContextSize::remove(const Node& node) {
  bytes_ -= node_bytes(node);
  for (const Value* operand : node.operands) {
    if (operand == nullptr || !operand->is_constant()) continue;
    Held& held = held_.at(operand);
    if (--held.users == 0) bytes_ -= held.bytes;
  }
}

std::uint64_t ContextSize::bytes() const { return bytes_ + kHeader; }

std::uint64_t context_bytes(const Graph& graph, const Target& target) {
  ContextSize size(target);
  for (const auto& node : graph.nodes()) size.add(*node);
  return size.bytes();
}

}  // namespace htpipe::check
